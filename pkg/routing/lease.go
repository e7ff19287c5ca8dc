package routing

// Lease is what one exchange holds of the ledgers: a reservation after Decide,
// an active exchange after Start, nothing after Release. The zero Lease holds
// nothing. It belongs to one exchange and is not safe for concurrent use; it
// may be used again once released. Every exchange must Release on every way
// out; reservations alone expire by themselves.
//
// No method allocates.
type Lease struct {
	target  *Target
	backend *BackendState
	// member and pod are the reservations of a least-loaded group and of a
	// least-loaded backend.
	member, pod ticket
	rnd         uint64
	picked      int64
	running     unit // noUnit: not started
	probing     bool
	reported    bool
}

// Target is what the lease was made for, nil where it holds nothing.
func (l *Lease) Target() *Target { return l.target }

// Start turns what Decide recorded into an active exchange of the target and
// of the backend. It does nothing on a lease that holds nothing or has started.
func (l *Lease) Start() {
	if l.start(workUnit) {
		l.backend.NoteWork(l.picked)
	}
}

// StartPoll is Start for an exchange that is no work: it counts as load, and
// neither in BackendState.Working nor in LastWork.
func (l *Lease) StartPoll() { l.start(pollUnit) }

// BringsWork makes work of what started as a poll; it does nothing otherwise.
func (l *Lease) BringsWork(now int64) {
	if l.running != pollUnit {
		return
	}
	l.running = workUnit
	l.backend.load.running.Add(int64(workUnit - pollUnit))
	l.target.load.running.Add(int64(workUnit - pollUnit))
	l.backend.NoteWork(now)
}

func (l *Lease) start(u unit) bool {
	if l.target == nil || l.running != noUnit {
		return false
	}
	l.running = u
	l.backend.load.start(l.member.settle(), u)
	l.target.load.start(l.pod.settle(), u)
	l.member, l.pod = ticket{}, ticket{}
	return true
}

// Report tells, once per lease, how the exchange went as soon as it is known:
// at the first response byte rather than at the end of a long stream. Later
// reports, the one in Release included, change nothing.
func (l *Lease) Report(now int64, r Result) {
	if l.target == nil || l.reported || r == ResultNeutral {
		return
	}
	l.reported = true
	l.target.health.report(now, l.picked, l.probing, r, l.rnd)
}

// Release reports r and gives back whatever the lease holds, reservation or
// active exchange. Idempotent.
func (l *Lease) Release(now int64, r Result) {
	if l.target == nil {
		return
	}
	l.Report(now, r)
	if l.probing && !l.reported {
		l.target.health.report(now, l.picked, true, ResultNeutral, l.rnd)
	}
	if u := l.running; u != noUnit {
		if u == workUnit {
			l.backend.NoteWork(now)
		}
		l.backend.load.finish(u)
		l.target.load.finish(u)
	} else {
		if l.member.settle() {
			l.backend.load.total.Add(-1)
		}
		if l.pod.settle() {
			l.target.load.total.Add(-1)
		}
	}
	*l = Lease{}
}
