package status

import (
	"cmp"
	"slices"
)

// queue orders updates so that none waits for long because of others: namespaces
// take turns, and within one the objects that have waited longest go first, the few
// Gateways before all others. Without
// it a tenant with thousands of routes, or with some that change all the time, would
// keep the statuses of all whose names come later from being written.
type queue struct {
	turn  int         // counts the calls of order
	since map[Key]int // the turn since which an object waits
}

// order returns the updates in the order in which they are to be written. Those of
// objects that begin to wait together stay in the order given.
// Cost: O(n log n), about 0.5 µs each.
func (q *queue) order(updates []Update) []Update {
	q.turn++
	since := make(map[Key]int, len(updates))
	type waiting struct {
		Update
		since, place int
	}
	list := make([]waiting, len(updates))
	for i, u := range updates {
		key := u.Key()
		turn, ok := q.since[key]
		if !ok {
			turn = q.turn
		}
		since[key] = turn
		list[i] = waiting{Update: u, since: turn}
	}
	q.since = since
	slices.SortStableFunc(list, func(a, b waiting) int {
		return cmp.Or(behindGateways(a.Update)-behindGateways(b.Update), cmp.Compare(a.since, b.since))
	})
	places := map[string]int{}
	for i := range list {
		namespace := list[i].Held.GetNamespace()
		list[i].place = places[namespace]
		places[namespace]++
	}
	slices.SortStableFunc(list, func(a, b waiting) int { return cmp.Compare(a.place, b.place) })
	out := make([]Update, len(list))
	for i := range list {
		out[i] = list[i].Update
	}
	return out
}

// behindGateways is 0 for a Gateway, else 1.
func behindGateways(u Update) int {
	if u.Kind == "Gateway" {
		return 0
	}
	return 1
}

// written sends an object to the end: what it asks for next waits from now on.
func (q *queue) written(key Key) {
	if _, ok := q.since[key]; ok {
		q.since[key] = q.turn + 1
	}
}
