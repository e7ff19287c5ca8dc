package routing

import (
	"fmt"
	"testing"
)

// groupWorld is the group "g" of the members a (tier 0), b (tier 0), c (tier 0)
// and p (the given tier), each with one pod where ready says so.
func groupWorld(ready string, tierOfP int) *world {
	w := &world{}
	for i, name := range []string{"a", "b", "c", "p"} {
		var endpoints []Endpoint
		if has(ready, name) {
			endpoints = pods(i + 1)[i:]
		}
		m := w.model(name, StrategyDefault, endpoints...)
		if name == "p" {
			m.Priority = tierOfP
		}
	}
	w.group("g", "a", "b", "c", "p")
	return w
}

func has(list, name string) bool {
	for _, r := range list {
		if string(r) == name {
			return true
		}
	}
	return false
}

func TestGroupOutcomes(t *testing.T) {
	session := fields{"X-Session-Id": "s1"}
	prefix := fields{"X-Flexinfer-Cache-Key": "doc"}
	f := func(mode Mode, ready string, tierOfP int, h fields, want GroupOutcome, members string) {
		t.Helper()
		o := testOptions()
		o.LabelGroupMode = mode
		g := backendOf(t, groupWorld(ready, tierOfP), o, "Group/ns/g")
		for i := range 30 {
			in := input(o, startOfTime, uint64(i))
			in.Headers = h
			var l Lease
			var d Decision
			g.Decide(in, &l, &d)
			if d.GroupOutcome != want || !has(members, d.Backend.Name) {
				t.Errorf("%v, ready %q, tier %d, %v: %v to %s, want %v to one of %q", mode, ready, tierOfP, h, d.GroupOutcome, d.Backend.Name, want, members)
				return
			}
			if d.Group != g {
				t.Errorf("%v: the decision does not name the group", mode)
			}
			l.Release(startOfTime, ResultOK)
		}
	}
	for mode := range Mode(numModes) {
		f(mode, "", 0, nil, GroupFallbackNoReady, "a")
		f(mode, "", 5, nil, GroupFallbackNoReady, "p")
		f(mode, "", -5, nil, GroupFallbackNoReady, "a")
		f(mode, "b", 5, session, GroupFallbackSingle, "b")
		f(mode, "p", 5, session, GroupFallbackSingle, "p")
		f(mode, "abcp", 5, prefix, GroupPriorityPick, "p")
		f(mode, "bp", 5, nil, GroupPriorityPick, "p")
		f(mode, "bp", -5, nil, GroupPriorityPick, "b")
	}
	f(ModeRoundRobin, "abc", 5, session, GroupDefaultRR, "abc")
	f(ModeRoundRobin, "abcp", -1, session, GroupDefaultRR, "abc")
	f(ModeLeastLoaded, "abcp", 0, session, GroupLeastLoaded, "abcp")
	for _, mode := range []Mode{ModePrefix, ModePrefixOrRR} {
		f(mode, "abcp", 0, prefix, GroupHashedPrefix, "abcp")
		f(mode, "abcp", 0, nil, GroupFallbackNoKey, "abcp")
		// A session is no prefix: only the mode that names both goes by it.
		f(mode, "abcp", 0, session, GroupFallbackNoKey, "abcp")
	}
	for _, mode := range []Mode{ModeSession, ModeSessionOrRR} {
		f(mode, "abcp", 0, session, GroupHashedSession, "abcp")
		f(mode, "abcp", 0, prefix, GroupFallbackNoKey, "abcp")
	}
	f(ModePrefixSessionOrRR, "abcp", 0, prefix, GroupHashedPrefix, "abcp")
	f(ModePrefixSessionOrRR, "abcp", 0, session, GroupHashedSession, "abcp")
	f(ModePrefixSessionOrRR, "abcp", 0, nil, GroupFallbackNoKey, "abcp")
}

// members returns how many of n picks each member gets.
func members(g *CompiledBackend, o *Options, n int, headers func(i int) fields) []string {
	var got []string
	for i := range n {
		in := input(o, startOfTime, uint64(i))
		in.Headers = headers(i)
		var l Lease
		var d Decision
		g.Decide(in, &l, &d)
		l.Release(startOfTime, ResultOK)
		got = append(got, d.Backend.Name)
	}
	return got
}

func TestGroupRoundRobinIsExact(t *testing.T) {
	o := testOptions()
	g := backendOf(t, groupWorld("abp", 0), o, "Group/ns/g")
	got := members(g, o, 6, func(int) fields { return nil })
	if fmt.Sprint(got) != "[a b p a b p]" {
		t.Errorf("got %v", got)
	}
}

func TestGroupReadinessMovesOnlyThatMembersKeys(t *testing.T) {
	o := testOptions()
	o.LabelGroupMode = ModeSession
	session := func(i int) fields { return fields{"X-Session-Id": fmt.Sprint("session-", i)} }
	all := members(backendOf(t, groupWorld("abcp", 0), o, "Group/ns/g"), o, 2_000, session)
	counts := map[string]int{}
	for _, m := range all {
		counts[m]++
	}
	for _, m := range []string{"a", "b", "c", "p"} {
		if counts[m] < 300 {
			t.Errorf("%s got %d of 2,000 sessions", m, counts[m])
		}
	}
	without := members(backendOf(t, groupWorld("abp", 0), o, "Group/ns/g"), o, 2_000, session)
	for i := range all {
		if all[i] != "c" && all[i] != without[i] {
			t.Fatalf("session %d moved from %s to %s though c went", i, all[i], without[i])
		}
		if without[i] == "c" {
			t.Fatalf("session %d went to a member that is not ready", i)
		}
	}
}

func TestGroupLeastLoadedBurst(t *testing.T) {
	o := testOptions()
	o.LabelGroupMode = ModeLeastLoaded
	g := backendOf(t, groupWorld("abcp", 0), o, "Group/ns/g")
	leases, counts := burst(g, o, 64)
	for _, m := range g.Members {
		if n := counts[m.Ready[0].Address]; n != 16 {
			t.Errorf("%s got %d picks, want 16 (%v)", m.Name, n, counts)
		}
		if n := m.State.ReservationsTotal(); n != 16 {
			t.Errorf("%s counts %d reservations, want 16", m.Name, n)
		}
	}
	for i := range leases {
		leases[i].Start()
		leases[i].Release(startOfTime, ResultOK)
	}
	checkIdle(t, append(g.Members, g)...)
}

// A member whose only pod refuses connections is left alone while another can
// take the request, at once for the request that found out, then for all.
func TestGroupGoesPastAMemberThatFails(t *testing.T) {
	o := testOptions()
	g := backendOf(t, groupWorld("bp", 5), o, "Group/ns/g")
	var l Lease
	var d Decision
	g.Decide(input(o, startOfTime, 1), &l, &d)
	if d.Backend.Name != "p" || d.GroupOutcome != GroupPriorityPick {
		t.Fatalf("%v to %s, want the primary", d.GroupOutcome, d.Backend.Name)
	}
	refused := d.Target
	l.Release(startOfTime, ResultConnectFailed)

	in := input(o, startOfTime, 1)
	in.Exclude = []*Target{refused}
	g.Decide(in, &l, &d)
	if d.Backend.Name != "b" || d.GroupOutcome != GroupFallbackSingle {
		t.Errorf("the retry: %v to %s, want b", d.GroupOutcome, d.Backend.Name)
	}
	l.Release(startOfTime, ResultOK)
	g.Decide(input(o, startOfTime, 1), &l, &d)
	if d.Backend.Name != "b" {
		t.Errorf("the next request went to %s, want b", d.Backend.Name)
	}
	l.Release(startOfTime, ResultOK)

	// After the period one request tries the primary, others stay on b.
	now := startOfTime + second
	g.Decide(input(o, now, 1), &l, &d)
	if d.Backend.Name != "p" {
		t.Errorf("after the period: %s, want p", d.Backend.Name)
	}
	var other Lease
	var od Decision
	g.Decide(input(o, now, 1), &other, &od)
	if od.Backend.Name != "b" {
		t.Errorf("while p is tried: %s, want b", od.Backend.Name)
	}
	other.Release(now, ResultOK)
	l.Report(now, ResultOK)
	g.Decide(input(o, now, 1), &other, &od)
	if od.Backend.Name != "p" || od.GroupOutcome != GroupPriorityPick {
		t.Errorf("after p answered: %v to %s, want p", od.GroupOutcome, od.Backend.Name)
	}
	other.Release(now, ResultOK)
	l.Release(now, ResultOK)
	checkIdle(t, append(g.Members, g)...)
}

// A phase that says a member is not Ready counts, whatever its endpoints say; where
// no other member is Ready, its endpoints serve all the same.
func TestGroupGoesByPhases(t *testing.T) {
	for _, phase := range []Phase{PhaseFailed, PhaseNotReady} {
		o := testOptions()
		w := groupWorld("ab", 0)
		w.Backends[0].Phase = phase
		g := backendOf(t, w, o, "Group/ns/g")
		for _, m := range members(g, o, 4, func(int) fields { return nil }) {
			if m != "b" {
				t.Errorf("%s: picked %s", phase, m)
			}
		}
	}
	o := testOptions()
	w := groupWorld("ab", 0)
	w.Backends[0].Phase, w.Backends[1].Phase = PhaseNotReady, PhaseNotReady
	g := backendOf(t, w, o, "Group/ns/g")
	var l Lease
	var d Decision
	g.Decide(input(o, startOfTime, 1), &l, &d)
	if d.Outcome != OutcomePod || d.GroupOutcome != GroupFallbackNoReady {
		t.Errorf("without any Ready member: %v, %v; want a pod, %v", d.Outcome, d.GroupOutcome, GroupFallbackNoReady)
	}
	l.Release(startOfTime, ResultOK)
}

func TestGroupNeedsBody(t *testing.T) {
	f := func(mode Mode, s Strategy, h fields, want bool) {
		t.Helper()
		w := groupWorld("ab", 0)
		w.Backends[1].Strategy = s
		o := testOptions()
		o.LabelGroupMode = mode
		if got := backendOf(t, w, o, "Group/ns/g").NeedsBody(h, o); got != want {
			t.Errorf("%v, member %s, %v: got %v, want %v", mode, s, h, got, want)
		}
	}
	f(ModeRoundRobin, StrategyDefault, nil, false)
	f(ModeRoundRobin, StrategyLeastLoaded, nil, false)
	f(ModeRoundRobin, StrategySession, nil, true)
	f(ModeRoundRobin, StrategySession, fields{"X-Session-Id": "1"}, false)
	f(ModePrefix, StrategyDefault, nil, true)
	f(ModePrefix, StrategyDefault, fields{"X-Flexinfer-Cache-Key": "k"}, false)
	f(ModeSession, StrategyDefault, nil, true)
}
