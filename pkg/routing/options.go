package routing

import "time"

// Options are the process settings that shape a Snapshot and its picks. They
// are read-only once a Snapshot was compiled with them.
type Options struct {
	// Keys bounds and orders the key sources.
	Keys KeyOptions
	// LabelGroupMode is how every label group picks its member.
	LabelGroupMode Mode
	// ReservationTTL is the last resort for least-loaded reservations that were
	// neither started nor released. 0 keeps no reservations at all.
	ReservationTTL time.Duration
	// VirtualNodes is the number of ring points of an endpoint of weight 1.
	VirtualNodes int
	// CardinalityLimit bounds the keys remembered per (backend, strategy, source).
	CardinalityLimit int
}

// The defaults of Options.
const (
	DefaultReservationTTL   = 10 * time.Second
	DefaultVirtualNodes     = 160
	DefaultCardinalityLimit = 10_000
)

// DefaultOptions are the settings of a process that was given none.
func DefaultOptions() Options {
	return Options{
		Keys:             DefaultKeyOptions(),
		LabelGroupMode:   ModeRoundRobin,
		ReservationTTL:   DefaultReservationTTL,
		VirtualNodes:     DefaultVirtualNodes,
		CardinalityLimit: DefaultCardinalityLimit,
	}
}
