package routing

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// TestPollsAreNoWork: both are load, only work is counted as such, on whichever
// way a lease takes.
func TestPollsAreNoWork(t *testing.T) {
	var w world
	w.model("m", StrategyDefault, pods(1)...)
	o := testOptions()
	b := backendOf(t, &w, o, "Model/ns/m")
	now := startOfTime
	want := func(what string, active, working, lastWork int64) {
		t.Helper()
		s, target := b.State, b.Ready[0]
		if s.Active() != active || s.Working() != working || target.Active() != active || s.LastWork() != lastWork {
			t.Errorf("%s: %d active, %d on the target, %d work, last at %d; want %d, %d and %d",
				what, s.Active(), target.Active(), s.Working(), s.LastWork(), active, working, lastWork)
		}
	}
	decide := func() (l Lease) {
		var d Decision
		now += second
		b.Decide(input(o, now, 0), &l, &d)
		return l
	}
	poll := decide()
	poll.StartPoll()
	poll.Start() // it has started
	want("a poll", 1, 0, 0)
	work := decide()
	begun := now
	work.Start()
	work.BringsWork(now + second)
	want("work beside it", 2, 1, begun)
	tunnel := decide()
	tunnel.BringsWork(now) // not started: nothing to change
	tunnel.StartPoll()
	want("an upgrade", 3, 1, begun)
	now += second
	tunnel.BringsWork(now)
	want("a tunnel", 3, 2, now)
	last := now
	poll.Release(now+second, ResultOK)
	want("the poll's end", 2, 2, last)
	now += 2 * second
	work.Release(now, ResultOK)
	want("the work's end", 1, 1, now)
	tunnel.Release(now+workTick-1, ResultOK)
	want("the tunnel's end, within a tick", 0, 0, now)
	b.State.NoteWork(now - second)
	want("an older note", 0, 0, now)
	b.State.NoteWork(now - 2*setBack)
	want("a clock set back", 0, 0, now-2*setBack)
	checkIdle(t, b)
}

// TestWorkCountsAreConsistent: however leases come and go beside it, a read sees
// at least the exchanges of work that run throughout, and never more than there are.
func TestWorkCountsAreConsistent(t *testing.T) {
	var w world
	w.model("m", StrategyLeastLoaded, pods(3)...)
	o := testOptions()
	b := backendOf(t, &w, o, "Model/ns/m")
	var held Lease
	var d Decision
	b.Decide(input(o, startOfTime, 0), &held, &d)
	held.Start()
	const workers, rounds = 4, 3000
	var group sync.WaitGroup
	for i := range workers {
		rnd := rand.New(rand.NewPCG(uint64(i), 3))
		group.Go(func() {
			for range rounds {
				var l Lease
				var d Decision
				b.Decide(input(o, startOfTime, rnd.Uint64()), &l, &d)
				if rnd.IntN(4) == 0 {
					l.Start()
				} else {
					l.StartPoll()
				}
				if n := b.State.Working(); n < 1 || n > workers+1 {
					t.Errorf("%d work", n)
				}
				l.Release(startOfTime, ResultOK)
			}
		})
	}
	group.Wait()
	held.Release(startOfTime, ResultOK)
	checkIdle(t, b)
}
