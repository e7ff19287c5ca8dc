package control

import (
	"context"
	"sync"
	"time"
)

// A translation starts when nothing has changed for quiet, at the latest bound
// after the first change.
const (
	quiet = 30 * time.Millisecond
	bound = 250 * time.Millisecond
)

// trigger turns bursts of changes into single rounds. fire may be called by any
// goroutine and never blocks; wait by one.
type trigger struct {
	wake chan struct{}

	mu          sync.Mutex
	first, last time.Time // changes since the last round; zero: none
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
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// wait returns when a round is due, with the time of its first change; false:
// ctx has ended.
func (t *trigger) wait(ctx context.Context) (first time.Time, ok bool) {
	for {
		t.mu.Lock()
		first = t.first
		due := t.last.Add(quiet)
		if latest := t.first.Add(bound); latest.Before(due) {
			due = latest
		}
		pending := !first.IsZero()
		wait := time.Until(due)
		if pending && wait <= 0 {
			t.first, t.last = time.Time{}, time.Time{}
		}
		t.mu.Unlock()
		if pending && wait <= 0 {
			return first, ctx.Err() == nil
		}
		if !pending {
			select {
			case <-t.wake:
			case <-ctx.Done():
				return time.Time{}, false
			}
			continue
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return time.Time{}, false
		}
	}
}
