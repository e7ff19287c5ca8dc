package translate

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"flexinfer.ai/gateway/pkg/routing"
)

// TestPathsKeepTheirSegments: no path that a rule may match on means another one
// by its spelling; a prefix never stands for more than it says.
func TestPathsKeepTheirSegments(t *testing.T) {
	for path, ok := range map[string]bool{
		"/": true, "/a/b": true, "/a/": true, "/a%20b": true, "/a.b": true, "/.a": true, "/..a": true, "/a%2eb": true, "/%41": true,
		"/a/../b": false, "/a/%2e%2e/b": false, "/a/.%2E/b": false, "/a/%2e%2e": false, "/a/%2e": false, "/%2e/a": false, "/a/.": false,
		"//": false, "/a%2fb": false, "/a%00": false, "a": false, "/a%": false,
	} {
		if problem := checkPathValue(path); (problem == "") != ok {
			t.Errorf("%s: %q", path, problem)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	parts := []string{"/", "/", "a", ".", "..", "%2e", "%2E", "%2f", "%00", "%61", "%20", "~"}
	passed := 0
	for range 20_000 {
		var b strings.Builder
		b.WriteByte('/')
		for range r.IntN(7) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		path := b.String()
		if checkPathValue(path) != "" {
			continue
		}
		passed++
		canonical, err := routing.AppendCanonicalPath(nil, []byte(path))
		if err != nil || bytes.Count(canonical, []byte("/")) != strings.Count(path, "/") {
			t.Fatalf("%s passes and means %s, %v", path, canonical, err)
		}
	}
	if passed < 1000 {
		t.Errorf("only %d paths passed: the parts test nothing", passed)
	}
}
