package routing

import (
	"math"
	"sync"
	"sync/atomic"
)

// ledger keeps the reservations that one backend's least-loaded picks made, in
// the order they expire. A reservation is a place in a table, not a pointer
// into the exchange that made it: one that expired is simply no longer there
// when its exchange comes to settle it.
//
// Cost: O(1) a reservation, no allocation once the table has grown to the
// largest number of picks in flight.
type ledger struct {
	// due is when the oldest reservation expires, math.MaxInt64 without one.
	due atomic.Int64

	mu         sync.Mutex
	slots      []reservation
	free       int32 // head of the list of unused slots, by next
	head, tail int32 // the reservations, oldest first
}

type reservation struct {
	load       *load         // what the reservation counts on
	credit     *BackendState // whose counters tell of it
	expiry     int64
	generation uint32 // tells the users of one slot apart
	prev, next int32
}

// ticket is an exchange's hold on a reservation; the zero ticket holds none.
type ticket struct {
	ledger     *ledger
	slot       int32
	generation uint32
}

const noSlot = -1

func (g *ledger) init() {
	g.free, g.head, g.tail = noSlot, noSlot, noSlot
	g.due.Store(math.MaxInt64)
}

// enter records a reservation that the pick already added to load.total.
func (g *ledger) enter(l *load, credit *BackendState, expiry int64) ticket {
	credit.reservations.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	i := g.free
	if i == noSlot {
		i = int32(len(g.slots))
		g.slots = append(g.slots, reservation{})
	} else {
		g.free = g.slots[i].next
	}
	s := &g.slots[i]
	s.load, s.credit, s.expiry = l, credit, expiry
	s.prev, s.next = g.tail, noSlot
	if g.tail == noSlot {
		g.head = i
		g.due.Store(expiry)
	} else {
		g.slots[g.tail].next = i
	}
	g.tail = i
	return ticket{g, i, s.generation}
}

// settle takes the reservation out. live is false where it had expired, and
// then load.total no longer counts it.
func (t ticket) settle() (live bool) {
	g := t.ledger
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.slots[t.slot].generation != t.generation {
		return false
	}
	g.remove(t.slot)
	return true
}

// expire drops the reservations whose time is over.
func (g *ledger) expire(now int64) {
	if now < g.due.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.head != noSlot && g.slots[g.head].expiry <= now {
		s := &g.slots[g.head]
		s.load.total.Add(-1)
		s.credit.expirations.Add(1)
		g.remove(g.head)
	}
}

// remove unlinks slot i and frees it; g.mu is held.
func (g *ledger) remove(i int32) {
	s := &g.slots[i]
	if s.prev == noSlot {
		g.head = s.next
	} else {
		g.slots[s.prev].next = s.next
	}
	if s.next == noSlot {
		g.tail = s.prev
	} else {
		g.slots[s.next].prev = s.prev
	}
	*s = reservation{generation: s.generation + 1, next: g.free}
	g.free = i
	if g.head == noSlot {
		g.due.Store(math.MaxInt64)
	} else {
		g.due.Store(g.slots[g.head].expiry)
	}
}
