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

	mu          sync.Mutex
	first, last *waiter
}

// waiter is one request in a queue, or in a pause.
type waiter struct {
	woken      chan struct{} // capacity 1
	queued     bool
	prev, next *waiter
}

func newWaiter() *waiter { return &waiter{woken: make(chan struct{}, 1)} }

// wake ends the wait. Any goroutine; idempotent.
func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// wait queues the caller until wakeAll, for at most timeout, or until its client
// leaves, which frees the place at once. over says whether the reason to wait is
// gone; it is asked once the caller is queued, so that a wakeAll between the
// caller's own look and its queueing is not lost.
func (q *coldQueue) wait(slot *clientSlot, timeout time.Duration, over func() bool) waitResult {
	w := newWaiter()
	if !q.enter(w) {
		return waitFull
	}
	defer q.leave(w)
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
	return newWaiter().await(s, d) != waitClientGone
}

func (q *coldQueue) enter(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if int(q.depth.Load()) >= q.limit {
		return false
	}
	w.queued, w.prev = true, q.last
	if q.last != nil {
		q.last.next = w
	} else {
		q.first = w
	}
	q.last = w
	q.depth.Add(1)
	return true
}

func (q *coldQueue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
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

// wakeAll lets every waiting request decide again and empties the queue.
func (q *coldQueue) wakeAll() {
	q.mu.Lock()
	w := q.first
	q.first, q.last = nil, nil
	for w != nil {
		next := w.next
		w.queued, w.prev, w.next = false, nil, nil
		q.depth.Add(-1)
		w.wake()
		w = next
	}
	q.mu.Unlock()
}
