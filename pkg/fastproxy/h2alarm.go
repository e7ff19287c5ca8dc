package fastproxy

import (
	"sync"
	"time"
)

// h2alarm bounds a wait of an HTTP/2 stream: ring is called when one lasts too
// long, never outside a wait, so that nothing touches a stream that has ended.
// A deadline of net/http would also run between the waits. The zero value is not
// set; it belongs to one goroutine but for ring.
type h2alarm struct {
	mu    sync.Mutex
	on    bool
	timer *time.Timer
}

// set begins a wait of at most d.
func (a *h2alarm) set(d time.Duration, ring func()) {
	a.mu.Lock()
	a.on = true
	a.mu.Unlock()
	if a.timer != nil {
		a.timer.Reset(d)
		return
	}
	a.timer = time.AfterFunc(d, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.on {
			ring()
		}
	})
}

// unset ends the wait: ring does not run any more. Idempotent.
func (a *h2alarm) unset() {
	if a.timer == nil {
		return
	}
	a.mu.Lock()
	a.on = false
	a.mu.Unlock()
	a.timer.Stop()
}
