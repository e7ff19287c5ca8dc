package fastproxy

import (
	"io"
	"net"
	"sync/atomic"
	"time"
)

const (
	tunnelBuffer = 32 << 10
	// tunnelLinger is how long the other direction of a tunnel may go on when
	// one has ended, without moving anything.
	tunnelLinger = 30 * time.Second
)

// writeCloser is a connection whose sending side can be closed by itself.
type writeCloser interface{ CloseWrite() error }

// tunnel is an upgraded connection: bytes pass both ways until both have ended,
// one has failed, or nothing has moved for the idle time.
type tunnel struct {
	client net.Conn
	engine *upstreamConn
	idle   int64        // nanoseconds; 0: no bound
	moved  atomic.Int64 // when anything last moved, monotonic
	half   atomic.Bool  // one direction has ended
}

// runTunnel passes bytes between the client, to whom the 101 has been sent, and
// the engine, and returns when the tunnel has ended; both connections are closed
// then. buffered is what was read from the client already. The end of one
// direction is passed on as such, for which client should have CloseWrite. The
// client's leaving shows in client itself from now on.
func (x *exchange) runTunnel(client net.Conn, buffered []byte) {
	l := &x.leg
	defer client.Close()
	u := l.conn
	if u == nil {
		return
	}
	l.conn = nil
	defer l.pool.release()
	defer u.tcp.Close()
	if !l.slot.retract() {
		return
	}
	t := &tunnel{client: client, engine: u, idle: int64(l.pool.options.TunnelIdleTimeout)}
	t.moved.Store(monotonic())
	u.tcp.SetDeadline(time.Time{})
	client.SetDeadline(time.Time{})
	early, _ := u.br.Peek(u.br.Buffered())
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		t.pump(u.tcp, client, buffered, nil)
	}()
	t.pump(client, u.tcp, early, &x.sent)
	<-sent
}

// cut ends both directions.
func (t *tunnel) cut() {
	t.engine.tcp.Close()
	t.client.Close()
}

// pump passes bytes from src to dst, early first, and counts them in n (may be
// nil). At the end of src it closes dst's sending side; any failure ends the
// tunnel.
func (t *tunnel) pump(dst, src net.Conn, early []byte, n *int64) {
	defer func() {
		if recover() != nil {
			t.cut()
		}
	}()
	if len(early) > 0 && !t.write(dst, early, n) {
		return
	}
	buf := bodyBuffers.get(tunnelBuffer)
	defer bodyBuffers.put(buf)
	p := (*buf)[:tunnelBuffer]
	for {
		t.arm(src)
		m, err := src.Read(p)
		if m > 0 && !t.write(dst, p[:m], n) {
			return
		}
		switch {
		case err == nil:
		case err == io.EOF:
			t.end(dst, src)
			return
		case pastDeadline(err) && !t.expired():
		default:
			t.cut()
			return
		}
	}
}

// write writes p to dst; false: the tunnel is cut.
func (t *tunnel) write(dst net.Conn, p []byte, n *int64) bool {
	t.moved.Store(monotonic())
	if t.idle > 0 {
		dst.SetWriteDeadline(time.Now().Add(time.Duration(t.idle)))
	}
	m, err := dst.Write(p)
	if n != nil {
		*n += int64(m)
	}
	if err != nil {
		t.cut()
		return false
	}
	t.moved.Store(monotonic())
	return true
}

// end passes the end of src on to dst; the second end closes both.
func (t *tunnel) end(dst, src net.Conn) {
	w, ok := dst.(writeCloser)
	if !ok || t.half.Swap(true) || w.CloseWrite() != nil {
		t.cut()
		return
	}
	// The direction that goes on looks at its time anew.
	t.moved.Store(monotonic())
	dst.SetReadDeadline(longAgo)
}

// limit is how long nothing may move.
func (t *tunnel) limit() int64 {
	if t.half.Load() {
		return earlier(t.idle, int64(tunnelLinger))
	}
	return t.idle
}

// arm sets the time by which a read of src must have brought something.
func (t *tunnel) arm(src net.Conn) {
	for {
		limit, until := t.limit(), time.Time{}
		if limit != 0 {
			until = started.Add(time.Duration(t.moved.Load() + limit))
		}
		src.SetReadDeadline(until)
		if limit == t.limit() {
			return
		}
	}
}

// expired tells whether nothing has moved for too long in either direction.
func (t *tunnel) expired() bool {
	limit := t.limit()
	return limit != 0 && monotonic()-t.moved.Load() >= limit
}
