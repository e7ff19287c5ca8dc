package h2spec

import (
	"sync"
	"testing"

	"github.com/summerwind/h2spec/config"
)

// TestH2Spec: the product passes every case of h2spec that net/http passes.
func TestH2Spec(t *testing.T) {
	cases := allCases()
	if len(cases) < fewestCases {
		t.Fatalf("h2spec has %d cases, want at least %d", len(cases), fewestCases)
	}
	cert, certPEM, keyPEM := selfSigned(t)
	plain, secure := startProduct(t, certPEM, keyPEM)
	barePlain, bareSecure := startBare(t, cert)
	t.Run("h2c", func(t *testing.T) { compare(t, cases, plain, barePlain) })
	t.Run("https", func(t *testing.T) { compare(t, cases, secure, bareSecure) })
}

// compare runs the cases against both servers and lists what they do not pass.
func compare(t *testing.T, cases []namedCase, product, bare *config.Config) {
	t.Parallel()
	ours, theirs := make([]result, len(cases)), make([]result, len(cases))
	var both sync.WaitGroup
	both.Go(func() { runAll(cases, product, ours) })
	both.Go(func() { runAll(cases, bare, theirs) })
	both.Wait()
	var counts, bareCounts [failed + 1]int
	for i, c := range cases {
		counts[ours[i].verdict]++
		bareCounts[theirs[i].verdict]++
		switch {
		case ours[i].verdict == passed && theirs[i].verdict == passed:
		case theirs[i].verdict == passed:
			t.Errorf("%s\n\tproduct %v: %s\n\tnet/http passed", c.name, ours[i].verdict, ours[i].reason)
		default:
			t.Logf("%s\n\tproduct  %v %s\n\tnet/http %v %s", c.name, ours[i].verdict, ours[i].reason, theirs[i].verdict, theirs[i].reason)
		}
	}
	t.Logf("%d cases: product %d passed, %d skipped, %d failed; net/http %d passed, %d skipped, %d failed", len(cases),
		counts[passed], counts[skipped], counts[failed], bareCounts[passed], bareCounts[skipped], bareCounts[failed])
	if bareCounts[passed] < len(cases)*9/10 {
		t.Errorf("net/http itself passes only %d of %d: the cases were not run as they should be", bareCounts[passed], len(cases))
	}
}

func runAll(cases []namedCase, server *config.Config, results []result) {
	for i, c := range cases {
		results[i] = c.run(server)
	}
}
