package routing

import "sync/atomic"

// load counts what one target or one member carries. total is active exchanges
// plus live reservations in one word, so that a least-loaded pick can compare
// and claim in one step, and so that a reservation that turns into an active
// exchange does not change it.
type load struct {
	total atomic.Int64
	// running counts active exchanges in its lower half and the polls among
	// them in its upper half, so that neither half is ever read without the
	// other and a count costs one step.
	running atomic.Int64
}

// unit is what one active exchange adds to load.running.
type unit int64

const (
	noUnit   unit = 0
	workUnit unit = 1
	pollUnit unit = 1<<32 + 1
)

// active is the number of active exchanges.
func (l *load) active() int64 { return int64(uint32(l.running.Load())) }

// working is the number of active exchanges that are no polls.
func (l *load) working() int64 {
	n := l.running.Load()
	return int64(uint32(n)) - n>>32
}

func (l *load) reserved() int64 {
	if n := l.total.Load() - l.active(); n > 0 {
		return n
	}
	return 0 // between the two reads the exchange began or ended
}

// start makes one exchange active; reserved says that a live reservation
// already stands for it.
func (l *load) start(reserved bool, u unit) {
	if !reserved {
		l.total.Add(1)
	}
	l.running.Add(int64(u))
}

func (l *load) finish(u unit) {
	l.running.Add(-int64(u))
	l.total.Add(-1)
}
