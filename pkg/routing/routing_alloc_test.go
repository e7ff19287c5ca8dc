//go:build !race

package routing

import (
	"fmt"
	"testing"
)

// wantNoAllocs runs f, which goes over a whole corpus, and wants no allocation
// in any of it.
func wantNoAllocs(t *testing.T, what string, f func()) {
	t.Helper()
	f() // tables grow to their size
	if n := testing.AllocsPerRun(100, f); n != 0 {
		t.Errorf("%s: %v allocations", what, n)
	}
}

func TestMatchAllocs(t *testing.T) {
	s := mustCompile(t, manyRoutes(300, 20), testOptions(), nil, NewRegistry(Hooks{}))
	socket := s.Socket(80)
	requests := requestsFor(300)
	hits := 0
	wantNoAllocs(t, "listener, model and match", func() {
		for i := range requests {
			r := &requests[i]
			l := socket.Listener(r.Host)
			r.Model = l.ResolveModel(r.Model)
			if l.Match(r) != nil {
				hits++
			}
			l.MatchPreflight(r, r.Method)
		}
	})
	if hits == 0 {
		t.Error("nothing matched")
	}
	miss := &Request{Host: []byte("x.y.z.unknown"), Path: []byte("/nothing/here"), Query: []byte("a=%20b&c"), Headers: &oneField{}}
	wantNoAllocs(t, "miss", func() {
		l := socket.Listener(miss.Host)
		l.Match(miss)
		l.ResolveModel([]byte("unknown"))
	})
}

func TestQueryMatchAllocs(t *testing.T) {
	var matches []Match
	for i := range 20 {
		matches = append(matches, Match{Query: []ValueMatch{{Name: "q", Value: fmt.Sprint("value ", i)}}})
	}
	l := rulesOf(t, matches...)
	r := &Request{Path: []byte("/"), Query: []byte("a=1&q=value%207")}
	if m := l.Match(r); m == nil || m.Rule.Index != 7 {
		t.Fatalf("got %+v", m)
	}
	wantNoAllocs(t, "query", func() { l.Match(r) })
}

func TestDecideAllocs(t *testing.T) {
	for mode := range Mode(numModes) {
		o := testOptions()
		o.LabelGroupMode = mode
		var w world
		for i, s := range []Strategy{StrategyDefault, StrategySession, StrategyPrefix, StrategyLeastLoaded} {
			w.model(fmt.Sprint("m", i), s, pods(20)...).Service = "10.96.0.1:80"
		}
		w.model("cold", StrategyPrefix).Serverless = &Serverless{}
		w.model("none", StrategySession)
		w.group("g", "m0", "m1", "m2", "m3")
		w.group("empty", "cold", "none")
		s := mustCompile(t, w.config(), o, nil, NewRegistry(Hooks{}))
		passed := s.Backend("Model/ns/m1").Ready[3]
		headers := []Headers{
			&oneField{},
			&oneField{"X-Session-Id", []byte("session-1")},
			&oneField{"X-Flexinfer-Cache-Key", []byte("tenant/doc")},
			&oneField{"X-Flexinfer-Cache-Key", []byte("not a key")},
		}
		var facts Facts
		facts.ParseJSON([]byte(`{"model":"m","messages":[{"role":"system","content":"You are"},{"role":"user","content":"Hi"}]}`), &o.Keys)
		exclude := []*Target{passed}
		var l Lease
		var d Decision
		in := RouteInput{Facts: &facts, Options: o, Now: startOfTime}
		wantNoAllocs(t, fmt.Sprint("Decide, mode ", mode), func() {
			passed.health.settle(in.Now, in.Now, ResultConnectFailed)
			for _, b := range s.Backends() {
				for _, h := range headers {
					in.Headers = h
					in.Rand = mix(in.Rand)
					in.Now += second / 10
					in.Exclude = nil
					for range 2 {
						b.Decide(&in, &l, &d)
						if d.Key.Valid() {
							d.Backend.State.Cardinality(d.Backend.Strategy, d.Key.Source).Add(d.Key.Hash)
						}
						l.Start()
						l.Report(in.Now, ResultServerError)
						l.Release(in.Now, ResultOK)
						in.Exclude = exclude
					}
					b.NeedsBody(h, o)
				}
			}
		})
		checkIdle(t, s.Backends()...)
	}
}

func TestRingLookupAllocs(t *testing.T) {
	r := ringOf(podIDs(100)...)
	sum := 0
	wantNoAllocs(t, "ring", func() {
		for h := range uint64(1_000) {
			sum += r.Lookup(mix(h))
		}
	})
	if sum == 0 {
		t.Error("every key on one pod")
	}
}

func TestPickBackendAllocs(t *testing.T) {
	r := &CompiledRule{totalWeight: 2, Backends: []WeightedBackend{{upTo: 1}, {upTo: 2}}}
	wantNoAllocs(t, "weights", func() { r.PickBackend(1 << 31) })
}
