package routing

import "sync/atomic"

// BackendState is what a Backend counts across snapshot swaps: active
// exchanges, reservations, round-robin positions and key cardinalities. It is
// made with the first Snapshot that holds its Backend and lives until a Sweep
// finds the Backend gone.
//
// All methods are safe for concurrent use and do not allocate, except where
// noted.
type BackendState struct {
	Key, Namespace, Name string
	// Attached is what Hooks.Backend returned: the data plane's own state.
	Attached any

	// load counts the backend as a member of its groups.
	load load
	// worked is when work last began or ended, to workTick.
	worked atomic.Int64
	// cursor is the position after the last round-robin pick of a target, or
	// of a member where the backend is a group.
	cursor       atomic.Uint32
	reservations atomic.Uint64
	expirations  atomic.Uint64
	// ledger holds the reservations of this backend's own least-loaded picks.
	ledger ledger

	cardinalityLimit int
	cardinality      [numKeyedStrategies][NumKeySources]atomic.Pointer[Cardinality]
}

func newBackendState(b *Backend, cardinalityLimit int) *BackendState {
	s := &BackendState{
		Key: b.Key, Namespace: b.Namespace, Name: b.Name,
		cardinalityLimit: cardinalityLimit,
	}
	s.ledger.init()
	return s
}

// Active is the number of exchanges that run with any target of the backend.
func (s *BackendState) Active() int64 { return s.load.active() }

// Working is how many of them are no polls.
func (s *BackendState) Working() int64 { return s.load.working() }

const (
	// workTick is how exactly LastWork is kept: exchanges that begin and end
	// within one share its write.
	workTick = 100_000_000
	// setBack is how far the clock must seem to have gone back for LastWork to
	// follow it.
	setBack = 60_000_000_000
)

// LastWork is when work last began, ended or was noted, in nanoseconds of
// RouteInput.Now's clock and up to a tenth of a second early; 0: never.
func (s *BackendState) LastWork() int64 { return s.worked.Load() }

// NoteWork moves LastWork to now; a request that waited in vain is work too.
func (s *BackendState) NoteWork(now int64) {
	last := s.worked.Load()
	if d := now - last; d >= workTick || d < -setBack {
		s.worked.CompareAndSwap(last, now)
	}
}

// ReservationsTotal is how many least-loaded reservations were ever recorded
// for the backend, as a pool of targets and as a member of groups.
func (s *BackendState) ReservationsTotal() uint64 { return s.reservations.Load() }

// ReservationsExpiredTotal is how many of them were neither started nor
// released in time. Expiry is noticed by the next pick or by ExpireReservations.
func (s *BackendState) ReservationsExpiredTotal() uint64 { return s.expirations.Load() }

// ExpireReservations drops what is overdue at time now in the backend's own
// ledger, so that a scrape of an idle process sees true counts.
func (s *BackendState) ExpireReservations(now int64) { s.ledger.expire(now) }

// The strategies that have keys, as rows of BackendState.cardinality.
const (
	rowSession = iota
	rowPrefix
	numKeyedStrategies
)

// Cardinality is the tracker of the keys that strategy found in source; nil for
// a strategy without keys. The first call for a pair allocates.
func (s *BackendState) Cardinality(strategy Strategy, source KeySource) *Cardinality {
	row := rowSession
	switch strategy {
	case StrategySession:
	case StrategyPrefix:
		row = rowPrefix
	default:
		return nil
	}
	if source == SourceNone || int(source) >= NumKeySources {
		return nil
	}
	p := &s.cardinality[row][source]
	if c := p.Load(); c != nil {
		return c
	}
	p.CompareAndSwap(nil, newCardinality(s.cardinalityLimit))
	return p.Load()
}
