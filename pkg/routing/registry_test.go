package routing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRegistrySweep(t *testing.T) {
	var log []string
	reg := NewRegistry(Hooks{
		Target:      func(t *Target) any { log = append(log, "+"+t.Address+"/"+t.UID); return t.Address },
		TargetGone:  func(t *Target) { log = append(log, "-"+t.Address+"/"+t.UID) },
		Backend:     func(s *BackendState) any { log = append(log, "+"+s.Key); return s.Name },
		BackendGone: func(s *BackendState) { log = append(log, "-"+s.Key) },
	})
	expect := func(what string, want ...string) {
		t.Helper()
		if d := cmp.Diff(want, log); d != "" {
			t.Errorf("%s: -want +got:\n%s", what, d)
		}
		log = nil
	}
	o := testOptions()
	compile := func(prev *Snapshot, endpoints ...Endpoint) *Snapshot {
		t.Helper()
		var w world
		w.model("m", StrategyLeastLoaded, endpoints...).Service = "10.96.0.1:80"
		s := mustCompile(t, w.config(), o, prev, reg)
		return s
	}
	one := Endpoint{Address: "10.0.0.1:80", UID: "u1", State: EndpointReady}
	two := Endpoint{Address: "10.0.0.1:80", UID: "u2", State: EndpointReady}

	first := compile(nil, one)
	expect("first", "+10.0.0.1:80/u1", "+Model/ns/m", "+10.96.0.1:80/")
	b := first.Backend("Model/ns/m")
	if b.Ready[0].Attached != "10.0.0.1:80" || b.State.Attached != "m" {
		t.Error("Attached is not what the hooks returned")
	}
	var l Lease
	var d Decision
	b.Decide(input(o, startOfTime, 0), &l, &d)
	l.Start()

	second := compile(first, two)
	reg.Sweep(second)
	expect("restarted pod", "+10.0.0.1:80/u2", "-10.0.0.1:80/u1")
	if n := second.Backend("Model/ns/m").Ready[0].Active(); n != 0 {
		t.Errorf("the restarted pod starts with %d active", n)
	}
	if n := b.State.Active(); n != 1 || second.Backend("Model/ns/m").State != b.State {
		t.Errorf("the backend forgot its exchanges: %d", n)
	}
	l.Release(startOfTime, ResultOK) // on a target that is gone
	checkIdle(t, b)

	// Gone and back without a Sweep in between is the same; after one, fresh.
	third := compile(second)
	fourth := compile(third, two)
	reg.Sweep(fourth)
	expect("came back in time")
	if second.Backend("Model/ns/m").Ready[0] != fourth.Backend("Model/ns/m").Ready[0] {
		t.Error("the pod lost its state")
	}
	reg.Sweep(compile(fourth))
	expect("gone", "-10.0.0.1:80/u2")

	empty := mustCompile(t, &Config{}, o, nil, reg)
	reg.Sweep(empty)
	if len(log) != 2 {
		t.Errorf("the empty snapshot left something: %v", log)
	}
	if len(reg.targets)+len(reg.backends) != 0 {
		t.Errorf("%d targets and %d backends are left", len(reg.targets), len(reg.backends))
	}
}
