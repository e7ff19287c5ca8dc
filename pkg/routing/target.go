package routing

// Target is one address that exchanges go to: an Endpoint of the Config with a
// life of its own, or a Service that is dialled itself. It is shared by every
// Snapshot and Backend that names the same pod, and lives until a Sweep finds
// it unreferenced; its counts survive snapshot swaps.
//
// All methods are safe for concurrent use and cost O(1) without allocation.
type Target struct {
	// Address is "ip:port", or "host:port" of a Service.
	Address string
	// UID is the pod's UID, "" where unknown. A restarted pod is another Target.
	UID string
	// ServiceFallback marks a Service that is dialled itself; its connections
	// should not be kept for long, so that the Service can spread them.
	ServiceFallback bool
	// Attached is what Hooks.Target returned: the data plane's own state.
	Attached any

	load   load
	health health
}

// Active is the number of exchanges that have started and not ended.
func (t *Target) Active() int64 { return t.load.active() }

// Reserved is the number of least-loaded picks that have neither started nor
// ended. It may still hold reservations that expired since the last pick.
func (t *Target) Reserved() int64 { return t.load.reserved() }

// PassedOver says whether picks go past the target at time now.
func (t *Target) PassedOver(now int64) bool { return !t.health.admits(now) }
