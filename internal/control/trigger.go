package control

import (
	"context"
	"sync"
	"time"
)

// A translation starts when nothing has changed for quiet, at the latest bound
// after the first change; after changes that no pod serves otherwise for, leisure
// after the first. Between two translations there is as much time as the first of
// them took, up to bound, so that a big cluster's churn takes half a processor at
// most.
const (
	quiet   = 30 * time.Millisecond
	bound   = 250 * time.Millisecond
	leisure = time.Second
)

// trigger turns bursts of changes into single rounds. fire may be called by any
// goroutine and never blocks; wait by one.
type trigger struct {
	wake chan struct{}

	mu          sync.Mutex
	first, last time.Time // changes since the last round; zero: none
	minor       time.Time // the first that is not urgent; zero: none
	rested      time.Time // no round begins before
}

func newTrigger() *trigger { return &trigger{wake: make(chan struct{}, 1)} }

// fire asks for a round.
func (t *trigger) fire() {
	now := time.Now()
	t.mu.Lock()
	if t.first.IsZero() {
		t.first = now
	}
	t.last = now
	t.mu.Unlock()
	t.signal()
}

// fireLater asks for a round that has time.
func (t *trigger) fireLater() {
	t.mu.Lock()
	if t.minor.IsZero() {
		t.minor = time.Now()
	}
	t.mu.Unlock()
	t.signal()
}

func (t *trigger) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// wait returns when a round is due, with the time of its first urgent change,
// zero where there is none; false: ctx has ended.
func (t *trigger) wait(ctx context.Context) (first time.Time, ok bool) {
	for {
		first, due, taken := t.take()
		if taken {
			return first, ctx.Err() == nil
		}
		var timer <-chan time.Time
		if !due.IsZero() {
			timer = time.After(time.Until(due))
		}
		select {
		case <-timer:
		case <-t.wake:
		case <-ctx.Done():
			return time.Time{}, false
		}
	}
}

// rest says that a round has ended that took so long.
func (t *trigger) rest(took time.Duration) {
	t.mu.Lock()
	t.rested = time.Now().Add(min(took, bound))
	t.mu.Unlock()
}

// take returns the first urgent change, and when a round is due, zero: nothing asks
// for one. Where it is due by now, the changes are taken.
func (t *trigger) take() (first, due time.Time, taken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.minor.IsZero() {
		due = t.minor.Add(leisure)
	}
	if !t.first.IsZero() {
		urgent := t.last.Add(quiet)
		if latest := t.first.Add(bound); latest.Before(urgent) {
			urgent = latest
		}
		if due.IsZero() || urgent.Before(due) {
			due = urgent
		}
	}
	if due.IsZero() {
		return first, due, false
	}
	if due.Before(t.rested) {
		due = t.rested
	}
	first = t.first
	if taken = time.Until(due) <= 0; taken {
		t.first, t.last, t.minor = time.Time{}, time.Time{}, time.Time{}
	}
	return first, due, taken
}
