package fastproxy

import (
	"sync/atomic"
	"time"
)

const (
	// A connection may reset hastyResets streams within hastyTime of their begin,
	// and more while they are not most of its streams. Every such reset costs an
	// engine a connection and a request for nothing, and the client two frames.
	hastyResets = 500
	hastyTime   = time.Second
)

// h2conn is a client connection that speaks HTTP/2. Its streams share it.
type h2conn struct {
	*clientConn
	streams atomic.Int64 // that reached their handler
	hasty   atomic.Int64 // of them: reset within hastyTime
	banned  atomic.Bool
}

// noteReset counts a stream that its client gave up age after its begin. A client
// that does little else loses its connection.
func (c *h2conn) noteReset(age time.Duration) {
	if age > hastyTime {
		return
	}
	n := c.hasty.Add(1)
	if n < hastyResets || 2*n < c.streams.Load() {
		return
	}
	if !c.banned.Swap(true) {
		c.front.counters.refused.add("stream_resets")
		_ = c.raw.Close()
	}
}
