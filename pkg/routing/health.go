package routing

import (
	"sync"
	"sync/atomic"
	"time"
)

// How passing over works: see docs of health.
const (
	failuresBeforePassing = 3
	firstPassingTime      = time.Second
	longestPassingTime    = 30 * time.Second
	// probeTerm bounds how long one unanswered probe keeps others away: a long
	// prefill may be working, or the probe's lease was lost.
	probeTerm = 30 * time.Second
)

// health decides whether picks go past a target that fails.
//
// Healthy -> passed over: at once after a failed connect, or after three of the
// other failures in a row. The period is 1 s and doubles up to 30 s, each
// shortened by up to a fifth (jitter, so that gateways do not return in step).
// Passed over -> trying: when the period ends, exactly one request is let
// through. Its success makes the target healthy, its failure starts the next
// period, a neutral end lets another request try.
//
// What ends during a period belongs to exchanges from before it and changes
// nothing, with one exception: a success of an exchange that was picked during
// the period (all others being passed over too) makes the target healthy.
type health struct {
	// until is 0 while healthy, else the end of the period in nanoseconds.
	until atomic.Int64
	// probe is the end of the running probe's term, 0 without one.
	probe atomic.Int64
	// failures is the length of the row of failures that is running.
	failures atomic.Int32

	mu    sync.Mutex // orders the transitions
	since int64      // when the period began
	step  int        // periods since the target was last healthy
}

// admits says whether a pick may choose the target at time now.
func (h *health) admits(now int64) bool {
	until := h.until.Load()
	return until == 0 || (now >= until && now >= h.probe.Load())
}

// claim is called by the pick that chose the target. probing says that its
// exchange is the one that tries a passed-over target; ok is false where
// another one is trying it already or the period is not over.
func (h *health) claim(now int64) (ok, probing bool) {
	until := h.until.Load()
	if until == 0 {
		return true, false
	}
	probe := h.probe.Load()
	if now < until || now < probe {
		return false, false
	}
	ok = h.probe.CompareAndSwap(probe, now+int64(probeTerm))
	return ok, ok
}

// report takes the result of an exchange that was picked at time picked.
func (h *health) report(now, picked int64, probing bool, r Result, rnd uint64) {
	switch r {
	case ResultNeutral:
		if probing {
			h.probe.Store(0)
		}
	case ResultOK:
		h.succeed(picked, probing)
	default:
		h.fail(now, probing, r == ResultConnectFailed, rnd)
	}
}

func (h *health) succeed(picked int64, probing bool) {
	if h.until.Load() == 0 && h.failures.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures.Store(0)
	if h.until.Load() != 0 && (probing || picked >= h.since) {
		h.step = 0
		h.probe.Store(0)
		h.until.Store(0)
	}
}

func (h *health) fail(now int64, probing, atOnce bool, rnd uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until.Load() != 0 {
		if probing {
			h.passOver(now, rnd)
		}
		return
	}
	if h.failures.Add(1) >= failuresBeforePassing || atOnce {
		h.passOver(now, rnd)
	}
}

// passOver begins a period; h.mu is held.
func (h *health) passOver(now int64, rnd uint64) {
	period := min(firstPassingTime<<min(h.step, 10), longestPassingTime)
	period -= time.Duration(rnd % uint64(period/5))
	h.step++
	h.since = now
	h.failures.Store(0)
	h.probe.Store(0)
	h.until.Store(now + int64(period))
}
