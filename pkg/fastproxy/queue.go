package fastproxy

import (
	"sync"
	"sync/atomic"
	"time"
)

// waitResult is how a wait in a coldQueue ended.
type waitResult uint8

const (
	// waitOver: the Model may have a replica now, or cannot get one: decide again.
	waitOver waitResult = iota
	waitFull
	waitTimedOut
	waitClientGone
)

// coldQueue holds the requests that wait for a cold Model's first replica.
// Safe for concurrent use.
type coldQueue struct {
	limit int
	depth atomic.Int64
	// filled is called when the first request has come to an empty queue; nil:
	// nobody wants to know.
	filled func()

	mu          sync.Mutex
	first, last *waiter
}

// waiter is one request in a queue, or in a pause.
type waiter struct {
	woken      chan struct{} // capacity 1
	wanted     string        // Key of what the request asked for: the queue's Model, or a group of it
	queued     bool
	prev, next *waiter
}

func newWaiter(wanted string) *waiter {
	return &waiter{wanted: wanted, woken: make(chan struct{}, 1)}
}

// wake ends the wait. Any goroutine; idempotent.
func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// wait queues a request for wanted until wake, for at most timeout, or until its
// client leaves, which frees the place at once. over says whether the reason to
// wait is gone; it is asked once the request is queued, so that a wake between
// the caller's own look and its queueing is not lost.
func (q *coldQueue) wait(wanted string, slot *clientSlot, timeout time.Duration, over func() bool) waitResult {
	w := newWaiter(wanted)
	entered, first := q.enter(w)
	if !entered {
		return waitFull
	}
	defer q.leave(w)
	if first && q.filled != nil {
		q.filled()
	}
	if over() {
		return waitOver
	}
	return w.await(slot, timeout)
}

// await blocks until wake, the end of the time or the client's leaving.
func (w *waiter) await(slot *clientSlot, timeout time.Duration) waitResult {
	slot.waiting.Store(w)
	defer slot.waiting.CompareAndSwap(w, nil)
	if slot.gone.Load() {
		return waitClientGone
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-w.woken:
		if slot.gone.Load() {
			return waitClientGone
		}
		return waitOver
	case <-timer.C:
		return waitTimedOut
	}
}

// sleep pauses the exchange of s; false: its client left meanwhile.
func (s *clientSlot) sleep(d time.Duration) bool {
	return newWaiter("").await(s, d) != waitClientGone
}

// enter queues w; first: the queue was empty.
func (q *coldQueue) enter(w *waiter) (entered, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if int(q.depth.Load()) >= q.limit {
		return false, false
	}
	w.queued, w.prev = true, q.last
	if q.last != nil {
		q.last.next = w
	} else {
		q.first = w
	}
	q.last = w
	return true, q.depth.Add(1) == 1
}

func (q *coldQueue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(w)
}

// remove unlinks w; it does nothing where w is not queued any more.
func (q *coldQueue) remove(w *waiter) {
	if !w.queued {
		return
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.last = w.prev
	}
	w.queued, w.prev, w.next = false, nil, nil
	q.depth.Add(-1)
}

// wake lets the requests decide again for whose wanted Key over is true, and
// takes them out of the queue.
func (q *coldQueue) wake(over func(wanted string) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for w := q.first; w != nil; {
		next := w.next
		if over(w.wanted) {
			q.remove(w)
			w.wake()
		}
		w = next
	}
}
