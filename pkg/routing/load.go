package routing

import "sync/atomic"

// load counts what one target or one member carries. total is active exchanges
// plus live reservations in one word, so that a least-loaded pick can compare
// and claim in one step, and so that a reservation that turns into an active
// exchange does not change it.
type load struct {
	total  atomic.Int64
	active atomic.Int64
}

func (l *load) reserved() int64 {
	if n := l.total.Load() - l.active.Load(); n > 0 {
		return n
	}
	return 0 // between the two reads the exchange began or ended
}

// start makes one exchange active; reserved says that a live reservation
// already stands for it.
func (l *load) start(reserved bool) {
	if !reserved {
		l.total.Add(1)
	}
	l.active.Add(1)
}

func (l *load) finish() {
	l.active.Add(-1)
	l.total.Add(-1)
}
