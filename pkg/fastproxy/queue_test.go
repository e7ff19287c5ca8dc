package fastproxy

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// longWait is a time-out that no test reaches unless something is lost.
const longWait = 20 * time.Second

func notOver() bool        { return false }
func everyone(string) bool { return true }

// inQueue waits until n requests are queued.
func inQueue(t *testing.T, q *coldQueue, n int64) {
	t.Helper()
	waitUntil(t, "the queue has the depth", func() bool { return q.depth.Load() == n })
}

func (r waitResult) String() string {
	return [...]string{waitOver: "over", waitFull: "full", waitTimedOut: "timed out", waitClientGone: "client gone"}[r]
}

func TestQueueWakesAll(t *testing.T) {
	q := &coldQueue{limit: 50}
	results := make(chan waitResult, 50)
	for range 50 {
		go func() { results <- q.wait("m", &clientSlot{}, longWait, notOver) }()
	}
	inQueue(t, q, 50)
	q.wake(everyone)
	for range 50 {
		if r := <-results; r != waitOver {
			t.Errorf("result %v", r)
		}
	}
	if q.depth.Load() != 0 || q.first != nil || q.last != nil {
		t.Error("the queue is not empty")
	}
}

func TestQueueWakesWhomItConcerns(t *testing.T) {
	q := &coldQueue{limit: 10}
	model, group := make(chan waitResult, 1), make(chan waitResult, 1)
	go func() { model <- q.wait("Model/ns/m", &clientSlot{}, longWait, notOver) }()
	go func() { group <- q.wait("Group/ns/g", &clientSlot{}, longWait, notOver) }()
	inQueue(t, q, 2)
	q.wake(func(wanted string) bool { return wanted == "Group/ns/g" })
	if r := <-group; r != waitOver {
		t.Errorf("group: %v", r)
	}
	inQueue(t, q, 1)
	q.wake(everyone)
	if r := <-model; r != waitOver {
		t.Errorf("model: %v", r)
	}
}

func TestQueueIsFull(t *testing.T) {
	q := &coldQueue{limit: 1}
	first := make(chan waitResult, 1)
	slot := &clientSlot{}
	go func() { first <- q.wait("m", slot, longWait, notOver) }()
	inQueue(t, q, 1)
	if r := q.wait("m", &clientSlot{}, longWait, notOver); r != waitFull {
		t.Errorf("second: %v", r)
	}
	slot.fire() // a client that leaves frees its place at once
	if r := <-first; r != waitClientGone {
		t.Errorf("first: %v", r)
	}
	inQueue(t, q, 0)
	if r := q.wait("m", &clientSlot{}, time.Millisecond, notOver); r != waitTimedOut {
		t.Errorf("third: %v", r)
	}
	inQueue(t, q, 0)
}

func TestQueueOfNoPlaces(t *testing.T) {
	if r := (&coldQueue{}).wait("m", &clientSlot{}, longWait, notOver); r != waitFull {
		t.Errorf("got %v", r)
	}
}

func TestQueueOverBeforeItBegan(t *testing.T) {
	q := &coldQueue{limit: 1}
	if r := q.wait("m", &clientSlot{}, longWait, func() bool { return true }); r != waitOver {
		t.Errorf("got %v", r)
	}
	gone := &clientSlot{}
	gone.fire()
	if r := q.wait("m", gone, longWait, notOver); r != waitClientGone {
		t.Errorf("got %v", r)
	}
	if q.depth.Load() != 0 || gone.waiting.Load() != nil {
		t.Error("something is left behind")
	}
}

// TestQueueLosesNoWakeUp: a replica that comes between a request's decision and
// its queueing ends its wait as well.
func TestQueueLosesNoWakeUp(t *testing.T) {
	for range 2000 {
		q := &coldQueue{limit: 10}
		var warm atomic.Bool
		done := make(chan waitResult, 1)
		go func() { done <- q.wait("m", &clientSlot{}, longWait, warm.Load) }()
		warm.Store(true)
		q.wake(everyone)
		if r := <-done; r != waitOver {
			t.Fatalf("got %v", r)
		}
	}
}

// TestQueueUnderFire mixes wakes, time-outs, leaving clients and a full queue;
// afterwards nothing is queued and every request has had one result.
func TestQueueUnderFire(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	q := &coldQueue{limit: 20}
	var results [4]atomic.Int64
	var requests, others sync.WaitGroup
	stop := make(chan struct{})
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(300 * time.Microsecond):
				q.wake(func(wanted string) bool { return wanted == "a" })
			}
		}
	})
	const workers, rounds = 40, 100
	for i := range workers {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		requests.Go(func() {
			for range rounds {
				slot := &clientSlot{}
				if rnd.IntN(2) == 0 {
					delay := time.Duration(rnd.IntN(500)) * time.Microsecond
					others.Go(func() {
						time.Sleep(delay)
						slot.fire()
					})
				}
				wanted := [2]string{"a", "b"}[rnd.IntN(2)]
				results[q.wait(wanted, slot, time.Duration(rnd.IntN(2000))*time.Microsecond, notOver)].Add(1)
			}
		})
	}
	requests.Wait()
	close(stop)
	others.Wait()
	sum := int64(0)
	for i := range results {
		t.Logf("%v: %d", waitResult(i), results[i].Load())
		sum += results[i].Load()
	}
	if sum != workers*rounds || q.depth.Load() != 0 || q.first != nil || q.last != nil {
		t.Errorf("%d results, depth %d", sum, q.depth.Load())
	}
}

func TestSleepEndsWithTheClient(t *testing.T) {
	slot := &clientSlot{}
	if !slot.sleep(time.Millisecond) {
		t.Error("the client has not left")
	}
	time.AfterFunc(5*time.Millisecond, slot.fire)
	if slot.sleep(longWait) {
		t.Error("slept on after the client left")
	}
}
