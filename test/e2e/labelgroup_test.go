package e2e

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/enginesim"
)

// The orpheus-tts case: a fast primary and a slower fallback claim one label. The
// primary's slice goes not ready and ready again under load; traffic follows and
// nothing fails.
func TestOrpheusLabelGroup(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 2, enginesim.Options{OutputTokens: 6, DecodeTokensPerSecond: 600})
	primary, fallback := engines[0], engines[1]
	slice := func(up bool) string {
		return serviceYAML(t, "orpheus-tts-gfx1100", replica{primary.Addr(), up})
	}
	label := "serviceLabels: [orpheus-tts]"
	g := serve(t, map[string]string{
		"all.yaml": gatewayYAML +
			modelYAML("orpheus-tts-gfx1100", []string{`flexinfer.ai/route-priority: "100"`}, label) +
			modelYAML("orpheus-tts-gfx906", nil, label) + serviceYAML(t, "orpheus-tts-gfx906", ready(engines[1:])...) +
			modelRouteYAML("r", "proxy", "orpheus-tts"),
		"primary.yaml": slice(true),
	})

	// last is the engine that answered last; all answers must be good.
	var last atomic.Pointer[string]
	var answers, failures atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 6 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				a, err := g.try(request{host: "proxy", body: []byte(`{"messages": [{"role": "user", "content": "Speak"}]}`)})
				if err != nil || a.status != 200 {
					failures.Add(1)
					t.Errorf("status %d, error %v, body %s", a.status, err, a.body)
					return
				}
				engine := a.engine()
				last.Store(&engine)
				answers.Add(1)
			}
		})
	}
	follows := func(engine string) {
		t.Helper()
		eventually(t, "traffic goes to "+engine, func() bool { e := last.Load(); return e != nil && *e == engine })
		// Give what ran before its time to end, then all must go there.
		time.Sleep(300 * time.Millisecond)
		before := answers.Load()
		eventually(t, "more answers", func() bool { return answers.Load() > before+20 })
		if e := *last.Load(); e != engine {
			t.Errorf("traffic went to %s, want %s", e, engine)
		}
	}
	follows(primary.Name())
	for range 3 {
		g.write("primary.yaml", slice(false))
		follows(fallback.Name())
		g.write("primary.yaml", slice(true))
		follows(primary.Name())
	}
	close(stop)
	load.Wait()
	t.Logf("%d answers over 6 changes, %d failures", answers.Load(), failures.Load())

	samples := g.scrape()
	const decisions, hits = "flexinfer_proxy_label_group_route_decisions_total", "flexinfer_proxy_label_group_route_target_hits_total"
	group := []string{"label", "orpheus-tts", "strategy", "round-robin"}
	counts := map[string]float64{}
	for _, outcome := range []string{"priority_pick", "fallback_single"} {
		counts[outcome] = total(samples, decisions, append(group, "outcome", outcome)...)
		if counts[outcome] == 0 {
			t.Errorf("outcome %s was never counted", outcome)
		}
	}
	for model, outcome := range map[string]string{"orpheus-tts-gfx1100": "priority_pick", "orpheus-tts-gfx906": "fallback_single"} {
		if n := total(samples, hits, append(group, "model", model)...); n != counts[outcome] {
			t.Errorf("%s was hit %v times, %s counted %v times", model, n, outcome, counts[outcome])
		}
	}
	if all := counts["priority_pick"] + counts["fallback_single"]; all != float64(answers.Load()) {
		t.Errorf("%v decisions for %d answers", all, answers.Load())
	}
}

// Every mode spreads or pins as it says.
func TestLabelGroupModes(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 3, enginesim.Options{OutputTokens: 4})
	manifests := gatewayYAML + modelRouteYAML("r", "proxy", "shared")
	for i, e := range engines {
		name := fmt.Sprint("member-", i+1)
		manifests += modelYAML(name, nil, "serviceLabels: [shared]") + serviceYAML(t, name, replica{e.Addr(), true})
	}
	f := func(mode string, form func(i int) request, outcome string, wantEngines int) {
		t.Helper()
		t.Run(mode, func(t *testing.T) {
			g := serve(t, map[string]string{"all.yaml": manifests}, "--label-group-routing", mode)
			seen := map[string]int{}
			for i := range 30 {
				r := form(i)
				r.host = "proxy"
				a := g.do(r)
				if a.status != 200 {
					t.Fatalf("status %d: %s", a.status, a.body)
				}
				seen[a.engine()]++
			}
			if len(seen) != wantEngines {
				t.Errorf("engines %v, want %d of them", seen, wantEngines)
			}
			g.expectTotal(30, "flexinfer_proxy_label_group_route_decisions_total", "label", "shared", "outcome", outcome)
		})
	}
	keyless := func(int) request { return request{path: "/v1/models"} }
	chat := []byte(`{"messages":[{"role":"user","content":"Hello"}]}`)
	with := func(name, value string) func(int) request {
		return func(i int) request {
			return request{body: chat, header: map[string]string{name: strings.ReplaceAll(value, "#", fmt.Sprint(i))}}
		}
	}
	f("round-robin", keyless, "default_rr", 3)
	f("least-loaded", keyless, "least_loaded", 3)
	f("prefix", with("X-Flexinfer-Cache-Key", "k#"), "hashed_prefix", 3)
	f("prefix-or-rr", with("X-Flexinfer-Cache-Key", "k"), "hashed_prefix", 1)
	f("session", with("X-Session-ID", "s#"), "hashed_session", 3)
	f("prefix-session-or-rr", with("X-Session-ID", "s#"), "hashed_session", 3)
	f("session-or-rr", keyless, "fallback_no_key", 3)
}
