package fastproxy

import "time"

// The data plane reads one clock, the monotonic one, which costs half of what
// time.Now does and which no step of the wall clock touches. It appears on two
// scales: nanoseconds since the process started, and the same as Unix time, which
// differs from the wall clock's by what that was stepped since.

// started anchors both scales.
var (
	started     = time.Now()
	startedUnix = started.UnixNano()
)

// monotonic is the time since the process started, in nanoseconds.
func monotonic() int64 { return int64(time.Since(started)) }

// unixNow is the time in Unix nanoseconds, as monotonic counts it.
func unixNow() int64 { return startedUnix + monotonic() }

// atMonotonic and atUnix are the two scales' times as deadlines of connections.
func atMonotonic(t int64) time.Time { return started.Add(time.Duration(t)) }
func atUnix(t int64) time.Time      { return atMonotonic(t - startedUnix) }

// wallTime is what the wall clock, as it goes now, showed at t.
func wallTime(t int64) time.Time { return time.Now().Add(time.Duration(t - unixNow())) }
