package routing

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// input is what a request without key or body gives to Decide.
func input(o *Options, now int64, rnd uint64) *RouteInput {
	return &RouteInput{Headers: fields{}, Facts: &Facts{}, Options: o, Now: now, Rand: rnd}
}

// burst makes n picks at once and returns their leases and how many each target
// got.
func burst(b *CompiledBackend, o *Options, n int) ([]Lease, map[string]int) {
	leases := make([]Lease, n)
	targets := make([]string, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			var d Decision
			b.Decide(input(o, startOfTime, uint64(i)), &leases[i], &d)
			targets[i] = d.Target.Address
		})
	}
	close(start)
	wg.Wait()
	counts := map[string]int{}
	for _, a := range targets {
		counts[a]++
	}
	return leases, counts
}

func TestLeastLoadedBurstIsEven(t *testing.T) {
	for try := range 50 {
		var w world
		w.model("m", StrategyLeastLoaded, pods(8)...)
		o := testOptions()
		b := backendOf(t, &w, o, "Model/ns/m")
		leases, counts := burst(b, o, 64)
		for _, p := range b.Ready {
			if counts[p.Address] != 8 || p.Reserved() != 8 {
				t.Fatalf("try %d: %s got %d picks and holds %d reservations, want 8 (%v)", try, p.Address, counts[p.Address], p.Reserved(), counts)
			}
		}
		for i := range leases {
			leases[i].Start()
		}
		for _, p := range b.Ready {
			if p.Active() != 8 || p.Reserved() != 0 {
				t.Fatalf("%s: %d active, %d reserved after the start, want 8 and 0", p.Address, p.Active(), p.Reserved())
			}
		}
		for i := range leases {
			leases[i].Release(startOfTime, ResultOK)
		}
		checkIdle(t, b)
	}
}

// What reservations are for: seven pods carry two exchanges each, one is idle.
// Without them all of a burst sees the idle pod and lands there.
func TestLeastLoadedBurstWithoutReservationsStampedes(t *testing.T) {
	f := func(ttl time.Duration) map[string]int {
		t.Helper()
		var w world
		w.model("m", StrategyLeastLoaded, pods(8)...)
		o := testOptions()
		o.ReservationTTL = ttl
		b := backendOf(t, &w, o, "Model/ns/m")
		var busy []Lease
		for len(busy) < 16 {
			var l Lease
			var d Decision
			b.Decide(input(o, startOfTime, 0), &l, &d)
			l.Start()
			busy = append(busy, l)
		}
		for i := range busy {
			if busy[i].Target() == b.Ready[3] {
				busy[i].Release(startOfTime, ResultOK)
			}
		}
		_, counts := burst(b, o, 64)
		return counts
	}
	idle := pods(8)[3].Address

	without := f(0)
	if without[idle] != 64 {
		t.Errorf("ledger off: %d of 64 picks went to the idle pod, want all (%v)", without[idle], without)
	}
	with := f(DefaultReservationTTL)
	// 78 exchanges on 8 pods: 9 or 10 each.
	if n := with[idle]; n < 9 || n > 10 {
		t.Errorf("ledger on: the idle pod got %d, want 9 or 10 (%v)", n, with)
	}
	for _, p := range pods(8) {
		if n := with[p.Address]; p.Address != idle && (n < 7 || n > 8) {
			t.Errorf("ledger on: %s got %d more, want 7 or 8 (%v)", p.Address, n, with)
		}
	}
}

// Even over idle pods the ledger is what keeps a burst even: while answers come
// back at different times, picks that only see active exchanges pile up.
func TestLeastLoadedIdleBurstWithLatency(t *testing.T) {
	f := func(ttl time.Duration) (counts []int) {
		var w world
		w.model("m", StrategyLeastLoaded, pods(8)...)
		o := testOptions()
		o.ReservationTTL = ttl
		b := backendOf(t, &w, o, "Model/ns/m")
		perPod := map[*Target]int{}
		var early Lease
		// 64 arrive while none has connected, but the first: it starts at once
		// and ends after 20 others were picked.
		for i := range 64 {
			l := &Lease{}
			if i == 0 {
				l = &early
			}
			var d Decision
			b.Decide(input(o, startOfTime, 0), l, &d)
			perPod[d.Target]++
			switch i {
			case 0:
				l.Start()
			case 20:
				early.Release(startOfTime, ResultOK)
			}
		}
		for _, p := range b.Ready {
			counts = append(counts, perPod[p])
		}
		return counts
	}
	with, without := f(DefaultReservationTTL), f(0)
	// The pod that finished one takes one more: 9 picks, 8 at a time.
	if slices.Max(with) > 9 || slices.Min(with) < 7 {
		t.Errorf("ledger on: %v", with)
	}
	if slices.Max(without)-slices.Min(without) <= slices.Max(with)-slices.Min(with) {
		t.Errorf("ledger off is as even as on: %v and %v", without, with)
	}
	t.Logf("picks by pod with the ledger %v, without %v", with, without)
}

func TestLeastLoadedTiesGoRoundRobin(t *testing.T) {
	var w world
	w.model("m", StrategyLeastLoaded, pods(3)...)
	for _, ttl := range []time.Duration{0, DefaultReservationTTL} {
		o := testOptions()
		o.ReservationTTL = ttl
		b := backendOf(t, &w, o, "Model/ns/m")
		var got []string
		for range 6 {
			var l Lease
			var d Decision
			b.Decide(input(o, startOfTime, 0), &l, &d)
			l.Release(startOfTime, ResultOK)
			got = append(got, d.Target.Address)
		}
		p := pods(3)
		want := []string{p[0].Address, p[1].Address, p[2].Address, p[0].Address, p[1].Address, p[2].Address}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("ttl %v: -want +got:\n%s", ttl, d)
		}
	}
}

func TestReservationExpiry(t *testing.T) {
	var w world
	w.model("m", StrategyLeastLoaded, pods(2)...)
	o := testOptions()
	b := backendOf(t, &w, o, "Model/ns/m")
	pick := func(l *Lease, now int64) *Target {
		var d Decision
		b.Decide(input(o, now, 0), l, &d)
		return d.Target
	}
	var lost, late, kept Lease
	first := pick(&lost, startOfTime)
	pick(&late, startOfTime+second)
	pick(&kept, startOfTime+5*second)

	now := startOfTime + int64(DefaultReservationTTL)
	b.State.ExpireReservations(now - 1)
	if n := b.State.ReservationsExpiredTotal(); n != 0 {
		t.Errorf("%d reservations expired before their time", n)
	}
	b.State.ExpireReservations(now)
	if n := b.State.ReservationsExpiredTotal(); n != 1 {
		t.Errorf("%d reservations expired, want 1", n)
	}
	if first.Reserved() != 1 { // kept's
		t.Errorf("%d reservations on the first pod, want 1", first.Reserved())
	}
	// The next pick notices by itself.
	var l Lease
	pick(&l, now+second)
	if n := b.State.ReservationsExpiredTotal(); n != 2 {
		t.Errorf("%d reservations expired, want 2", n)
	}
	// A late start counts in full, a late release gives nothing back twice.
	late.Start()
	if n := late.Target().Active(); n != 1 {
		t.Errorf("%d active after a late start, want 1", n)
	}
	lost.Release(now, ResultNeutral)
	lost.Release(now, ResultNeutral)
	late.Release(now, ResultNeutral)
	kept.Release(now, ResultNeutral)
	l.Release(now, ResultNeutral)
	checkIdle(t, b)
	if n := b.State.ReservationsTotal(); n != 4 {
		t.Errorf("%d reservations in all, want 4", n)
	}
}

// checkIdle fails unless every count of the backends is zero.
func checkIdle(t *testing.T, backends ...*CompiledBackend) {
	t.Helper()
	for _, b := range backends {
		check := func(what string, l *load) {
			t.Helper()
			if l.running.Load() != 0 || l.total.Load() != 0 {
				t.Errorf("%s: %s has %d active and %d in total, want 0", b.Key, what, l.active(), l.total.Load())
			}
		}
		check("the backend", &b.State.load)
		for _, p := range b.Usable() {
			check(p.Address, &p.load)
		}
		if b.Service != nil {
			check("the Service", &b.Service.load)
		}
		if g := &b.State.ledger; g.head != noSlot || g.tail != noSlot {
			t.Errorf("%s: reservations are left", b.Key)
		}
	}
}

// Whatever exchanges do, and however they end, every count is zero at the end.
func TestLedgerReturnsToZero(t *testing.T) {
	seed := randomSource(t).Uint64()
	var w world
	w.model("a", StrategyLeastLoaded, pods(5)...)
	w.model("b", StrategyLeastLoaded, pods(8)[5:]...)
	w.model("c", StrategySession, pods(4)...) // shares pods with a
	w.model("d", StrategyPrefix).Service = "10.9.9.9:80"
	w.group("g", "a", "b")
	for _, mode := range []Mode{ModeLeastLoaded, ModeRoundRobin} {
		o := testOptions()
		o.LabelGroupMode = mode
		o.ReservationTTL = 50 * time.Millisecond
		s := mustCompile(t, w.config(), o, nil, NewRegistry(Hooks{}))
		var clock atomic.Int64
		clock.Store(startOfTime)
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() { liveThrough(s, o, &clock, seed+uint64(worker), 3_000) })
		}
		wg.Wait()
		for _, b := range s.Backends() {
			b.State.ExpireReservations(clock.Load() + int64(time.Hour))
		}
		checkIdle(t, s.Backends()...)
	}
}

// liveThrough runs steps of random exchanges, some of which are lost.
func liveThrough(s *Snapshot, o *Options, clock *atomic.Int64, seed uint64, steps int) {
	var held [6]Lease
	state := seed
	next := func(n uint64) uint64 { state = mix(state); return state % n }
	for range steps {
		now := clock.Add(int64(next(uint64(time.Millisecond))))
		l := &held[next(uint64(len(held)))]
		switch next(8) {
		case 0, 1, 2:
			b := s.Backends()[next(uint64(len(s.Backends())))]
			in := input(o, now, next(1<<63))
			in.Headers = fields{"X-Session-Id": fmt.Sprint(next(100))}
			if t := l.Target(); t != nil {
				in.Exclude = []*Target{t}
			}
			var d Decision
			b.Decide(in, l, &d)
		case 3, 4:
			l.Start()
		case 5:
			l.Report(now, Result(next(6)))
		case 6:
			l.Release(now, Result(next(6)))
		case 7:
			if l.running == noUnit {
				*l = Lease{} // forgotten: only the TTL gives it back
			}
		}
	}
	for i := range held {
		held[i].Release(clock.Load(), ResultNeutral)
	}
}
