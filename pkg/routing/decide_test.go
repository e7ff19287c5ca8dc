package routing

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// decide makes one decision and gives it back at once.
func decide(b *CompiledBackend, in *RouteInput) Decision {
	var l Lease
	var d Decision
	b.Decide(in, &l, &d)
	l.Release(in.Now, ResultNeutral)
	return d
}

func withHeaders(o *Options, rnd uint64, h fields) *RouteInput {
	in := input(o, startOfTime, rnd)
	in.Headers = h
	return in
}

func TestDecideByStrategy(t *testing.T) {
	session := fields{"X-Session-Id": "s1"}
	f := func(s Strategy, h fields, service string, endpoints []Endpoint, serverless bool, want Outcome, source KeySource) {
		t.Helper()
		var w world
		m := w.model("m", s, endpoints...)
		m.Service = service
		if serverless {
			m.Serverless = &Serverless{}
		}
		o := testOptions()
		b := backendOf(t, &w, o, "Model/ns/m")
		d := decide(b, withHeaders(o, 1, h))
		if d.Outcome != want || d.Key.Source != source {
			t.Errorf("%s, %v, service %q, %d endpoints: %v by %v, want %v by %v", s, h, service, len(endpoints), d.Outcome, d.Key.Source, want, source)
		}
		if (d.Target != nil) != (want == OutcomePod || want == OutcomeServiceFallback) {
			t.Errorf("%s: outcome %v with target %v", s, want, d.Target)
		}
		if want == OutcomeServiceFallback && (!d.Target.ServiceFallback || d.Target.Address != service) {
			t.Errorf("%s: fell back to %+v, want the Service", s, d.Target)
		}
		if d.Backend != b || d.Group != nil || d.GroupOutcome != GroupNone {
			t.Errorf("%s: the decision names another backend or a group", s)
		}
	}
	const svc = "10.96.0.1:80"
	some := pods(3)
	f(StrategyDefault, session, svc, some, false, OutcomePod, SourceNone)
	f(StrategyLeastLoaded, session, svc, some, false, OutcomePod, SourceNone)
	f(StrategySession, session, svc, some, false, OutcomePod, SourceSessionHeader)
	f(StrategySession, nil, svc, some, false, OutcomePod, SourceNone)
	f(StrategyPrefix, fields{"X-Flexinfer-Cache-Key": "k"}, svc, some, false, OutcomePod, SourceExplicitHeader)
	f(StrategyPrefix, session, svc, some, false, OutcomePod, SourceSessionFallback)
	f(StrategyPrefix, nil, svc, some, false, OutcomeServiceFallback, SourceNone)
	// Without a Service there is nothing to fall back to but the pods.
	f(StrategyPrefix, nil, "", some, false, OutcomePod, SourceNone)
	for _, s := range []Strategy{StrategyDefault, StrategyLeastLoaded, StrategySession, StrategyPrefix} {
		f(s, nil, svc, nil, false, OutcomeServiceFallback, SourceNone)
		f(s, nil, "", nil, false, OutcomeNone, SourceNone)
		f(s, session, svc, nil, true, OutcomeCold, SourceNone)
	}
	f(StrategySession, session, svc, nil, false, OutcomeServiceFallback, SourceSessionHeader)
}

func TestDrainingOnlyWithoutReady(t *testing.T) {
	f := func(states []EndpointState, want string) {
		t.Helper()
		endpoints := pods(len(states))
		for i := range endpoints {
			endpoints[i].State = states[i]
		}
		for _, s := range []Strategy{StrategyDefault, StrategyLeastLoaded, StrategySession, StrategyPrefix} {
			var w world
			w.model("m", s, endpoints...)
			o := testOptions()
			b := backendOf(t, &w, o, "Model/ns/m")
			for i := range 50 {
				d := decide(b, withHeaders(o, mix(uint64(i)), fields{"X-Session-Id": fmt.Sprint(i % 25)}))
				if d.Target == nil || d.Target.Address != want {
					t.Fatalf("%s, %v: got %+v, want %s", s, states, d.Target, want)
				}
			}
		}
	}
	p := pods(3)
	f([]EndpointState{EndpointDraining, EndpointReady, EndpointNotReady}, p[1].Address)
	f([]EndpointState{EndpointNotReady, EndpointNotReady, EndpointDraining}, p[2].Address)
}

func TestDefaultIsRoundRobin(t *testing.T) {
	var w world
	w.model("m", StrategyDefault, pods(3)...)
	o := testOptions()
	b := backendOf(t, &w, o, "Model/ns/m")
	var got []int
	for range 7 {
		d := decide(b, input(o, startOfTime, 0))
		for i, p := range b.Ready {
			if p == d.Target {
				got = append(got, i)
			}
		}
	}
	if d := cmp.Diff([]int{0, 1, 2, 0, 1, 2, 0}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestSessionWithoutKeyIsRandom(t *testing.T) {
	var w world
	w.model("m", StrategySession, pods(4)...)
	o := testOptions()
	b := backendOf(t, &w, o, "Model/ns/m")
	rnd := randomSource(t)
	counts := map[*Target]int{}
	for range 8_000 {
		counts[decide(b, input(o, startOfTime, rnd.Uint64())).Target]++
	}
	for _, p := range b.Ready {
		if n := counts[p]; n < 1_700 || n > 2_300 {
			t.Errorf("%s got %d of 8,000, want about 2,000", p.Address, n)
		}
	}
}

// While a pod is passed over no strategy picks it, a key's requests go to the
// next pod clockwise and return with it.
func TestPassedOverInEveryStrategy(t *testing.T) {
	for _, s := range []Strategy{StrategyDefault, StrategyLeastLoaded, StrategySession, StrategyPrefix} {
		var w world
		w.model("m", s, pods(4)...)
		o := testOptions()
		b := backendOf(t, &w, o, "Model/ns/m")
		at := func(now int64) []*Target {
			var got []*Target
			for i := range 200 {
				in := withHeaders(o, mix(uint64(i)), fields{"X-Session-Id": fmt.Sprint(i)})
				in.Now = now
				got = append(got, decide(b, in).Target)
			}
			return got
		}
		before := at(startOfTime)
		bad := b.Ready[2]
		bad.health.settle(startOfTime, startOfTime, ResultConnectFailed)
		if !bad.PassedOver(startOfTime) {
			t.Fatalf("%s: the pod is not passed over", s)
		}
		moved := map[*Target]bool{}
		for i, got := range at(startOfTime) {
			if got == bad {
				t.Fatalf("%s: request %d went to the passed-over pod", s, i)
			}
			if s == StrategySession || s == StrategyPrefix {
				if before[i] != bad && before[i] != got {
					t.Fatalf("%s: key %d moved from a healthy pod", s, i)
				}
				if before[i] == bad {
					moved[got] = true
				}
			}
		}
		if (s == StrategySession || s == StrategyPrefix) && len(moved) < 2 {
			t.Errorf("%s: the pod's keys all went to one other", s)
		}
		// The probe's success brings everything back.
		bad.health.settle(startOfTime+second, startOfTime+second, ResultOK)
		if s == StrategySession || s == StrategyPrefix {
			if d := cmp.Diff(addresses(before), addresses(at(startOfTime+second))); d != "" {
				t.Errorf("%s: keys did not return:\n%s", s, d)
			}
		}
	}
}

func addresses(targets []*Target) []string {
	var out []string
	for _, t := range targets {
		out = append(out, t.Address)
	}
	return out
}

func TestAllPassedOverUsualOrderHolds(t *testing.T) {
	for _, s := range []Strategy{StrategyDefault, StrategyLeastLoaded, StrategySession, StrategyPrefix} {
		var w world
		w.model("m", s, pods(4)...)
		o := testOptions()
		b := backendOf(t, &w, o, "Model/ns/m")
		pick := func(i int) *Target {
			return decide(b, withHeaders(o, mix(uint64(i)), fields{"X-Session-Id": fmt.Sprint(i)})).Target
		}
		var before []*Target
		for i := range 40 {
			before = append(before, pick(i))
		}
		for _, p := range b.Ready {
			p.health.settle(startOfTime, startOfTime, ResultConnectFailed)
		}
		for i := range 40 {
			if got := pick(i); got == nil || got != before[i] {
				t.Fatalf("%s: pick %d is %v, want the usual %v", s, i, got, before[i])
			}
		}
	}
}

func TestExcludeIsTriedLast(t *testing.T) {
	for _, s := range []Strategy{StrategyDefault, StrategyLeastLoaded, StrategySession, StrategyPrefix} {
		var w world
		w.model("m", s, pods(3)...)
		o := testOptions()
		b := backendOf(t, &w, o, "Model/ns/m")
		in := withHeaders(o, 5, fields{"X-Session-Id": "x"})
		for range 3 {
			d := decide(b, in)
			for _, e := range in.Exclude {
				if e == d.Target {
					t.Fatalf("%s: %s was tried twice while others were left", s, e.Address)
				}
			}
			in.Exclude = append(in.Exclude, d.Target)
		}
		if d := decide(b, in); d.Target == nil {
			t.Errorf("%s: no target once all were tried", s)
		}
	}
}

func TestOneProbeThroughDecide(t *testing.T) {
	for _, s := range []Strategy{StrategyDefault, StrategyLeastLoaded, StrategySession} {
		var w world
		w.model("m", s, pods(2)...)
		o := testOptions()
		b := backendOf(t, &w, o, "Model/ns/m")
		bad := b.Ready[1]
		bad.health.settle(startOfTime, startOfTime, ResultConnectFailed)
		now := startOfTime + second
		var leases [50]Lease
		var probes int
		for i := range leases {
			in := withHeaders(o, mix(uint64(i)), fields{"X-Session-Id": fmt.Sprint(i)})
			in.Now = now
			var d Decision
			b.Decide(in, &leases[i], &d)
			leases[i].Start()
			if d.Target == bad {
				probes++
			}
		}
		if probes != 1 {
			t.Errorf("%s: %d requests try the pod, want 1", s, probes)
		}
		for i := range leases {
			leases[i].Release(now, ResultOK)
		}
		if bad.PassedOver(now) {
			t.Errorf("%s: still passed over after the probe's success", s)
		}
		checkIdle(t, b)
	}
}

func TestWeights(t *testing.T) {
	r := &CompiledRule{}
	for _, w := range []uint64{70, 30, 5, 900} {
		r.totalWeight += w
		r.Backends = append(r.Backends, WeightedBackend{upTo: r.totalWeight})
	}
	rnd := randomSource(t)
	counts := map[*WeightedBackend]int{}
	for range 100_500 {
		counts[r.PickBackend(rnd.Uint32())]++
	}
	for i, want := range []int{7_000, 3_000, 500, 90_000} {
		if got := counts[&r.Backends[i]]; got < want*8/10 || got > want*12/10 {
			t.Errorf("backend %d got %d, want about %d", i, got, want)
		}
	}
	if r.PickBackend(0) != &r.Backends[0] || r.PickBackend(^uint32(0)) != &r.Backends[3] {
		t.Error("the ends of the range are not the first and the last backend")
	}
	if (&CompiledRule{}).PickBackend(1) != nil {
		t.Error("a rule without weight picked a backend")
	}
}

func TestWakesOn(t *testing.T) {
	f := func(s *Serverless, method string, want bool) {
		t.Helper()
		b := &CompiledBackend{Serverless: s}
		if got := b.WakesOn([]byte(method)); got != want {
			t.Errorf("%+v, %s: got %v, want %v", s, method, got, want)
		}
	}
	f(nil, "POST", false)
	f(&Serverless{}, "POST", true)
	f(&Serverless{}, "GET", false)
	f(&Serverless{WakeMethods: []string{"GET", "PUT"}}, "GET", true)
	f(&Serverless{WakeMethods: []string{"GET", "PUT"}}, "POST", false)
}

func TestLeaseIsIdempotentAndReusable(t *testing.T) {
	var w world
	w.model("m", StrategyLeastLoaded, pods(2)...)
	o := testOptions()
	b := backendOf(t, &w, o, "Model/ns/m")
	var l Lease
	var d Decision
	l.Start()
	l.Report(startOfTime, ResultOK)
	l.Release(startOfTime, ResultOK)
	for range 3 {
		b.Decide(input(o, startOfTime, 0), &l, &d)
		l.Start()
		l.Start()
		if n := d.Target.Active(); n != 1 {
			t.Fatalf("%d active after two starts, want 1", n)
		}
		if n := b.State.Active(); n != 1 {
			t.Fatalf("the backend has %d active, want 1", n)
		}
		l.Release(startOfTime, ResultOK)
		l.Release(startOfTime, ResultOK)
		checkIdle(t, b)
	}
	// Deciding again gives back what was held.
	b.Decide(input(o, startOfTime, 0), &l, &d)
	b.Decide(input(o, startOfTime+int64(time.Millisecond), 0), &l, &d)
	if n := b.Ready[0].Reserved() + b.Ready[1].Reserved(); n != 1 {
		t.Errorf("%d reservations after deciding twice, want 1", n)
	}
	l.Release(startOfTime, ResultNeutral)
	checkIdle(t, b)
}

// A prefix request without a key goes to the Service, but neither again where it
// has just failed to, nor while the Service is passed over: pods are reachable.
func TestServiceFallbackIsPassedOver(t *testing.T) {
	var w world
	w.model("m", StrategyPrefix, pods(2)...).Service = "10.96.0.1:8000"
	o := testOptions()
	b := backendOf(t, &w, o, "Model/ns/m")
	in := withHeaders(o, 1, nil)
	var l Lease
	var d Decision
	f := func(step string, want Outcome) {
		t.Helper()
		if b.Decide(in, &l, &d); d.Outcome != want || d.Target == nil {
			t.Errorf("%s: %v to %v, want %v", step, d.Outcome, d.Target, want)
		}
	}
	f("at first", OutcomeServiceFallback)
	in.Exclude = append(in.Exclude, d.Target)
	f("tried in vain", OutcomePod)
	in.Exclude = nil
	f("next request", OutcomeServiceFallback)
	l.Release(in.Now, ResultConnectFailed)
	f("passed over", OutcomePod)
	in.Now += int64(firstPassingTime)
	f("after the time", OutcomeServiceFallback)
	probe := l
	l = Lease{}
	f("while one tries it", OutcomePod)
	probe.Release(in.Now, ResultOK)
	f("once it answered", OutcomeServiceFallback)
	l.Release(in.Now, ResultOK)
	if n := b.State.Active() + b.Service.Active() + b.Service.Reserved(); n != 0 {
		t.Errorf("the ledgers hold %d at the end", n)
	}
}
