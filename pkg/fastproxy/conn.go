package fastproxy

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// connState is what a client connection is doing.
type connState int32

const (
	connNew    connState = iota // nothing received, or the handshake runs
	connActive                  // within a message or an exchange
	connIdle                    // HTTP/1.1 between two requests
	connTunnel                  // switched to another protocol
	connHTTP2                   // net/http has it
	connEnding                  // a drain has claimed it: it takes no further request
)

// clientConn is one client connection, whatever it speaks. The goroutine that
// serves it owns it; state, slot and raw's deadlines are for everybody.
type clientConn struct {
	front    *front
	acceptor *acceptor
	since    int64 // Unix nanoseconds
	raw      *socket
	// conn is raw, or the TLS connection on it.
	conn   net.Conn
	remote []byte // the peer's "ip:port"
	slot   clientSlot
	state  atomic.Int32
	left   atomic.Bool // leave has been called
	// watched is the number under which the watcher knows raw; 0: it does not.
	watched uint64
	// listenerKey is the listener that the TLS handshake chose.
	listenerKey string
}

// claim moves the connection from state from to state to; false: it was in
// another.
func (c *clientConn) claim(from, to connState) bool {
	return c.state.CompareAndSwap(int32(from), int32(to))
}

// registry holds the open client connections.
type registry struct {
	mu    sync.Mutex
	conns map[*clientConn]struct{}
}

func (r *registry) add(c *clientConn) {
	r.mu.Lock()
	if r.conns == nil {
		r.conns = map[*clientConn]struct{}{}
	}
	r.conns[c] = struct{}{}
	r.mu.Unlock()
}

func (r *registry) remove(c *clientConn) {
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
}

// each visits the connections, under the registry's lock.
func (r *registry) each(visit func(*clientConn)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		visit(c)
	}
}

func (r *registry) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns)
}

// admit registers an accepted connection; nil: it is over Limits.Connections.
func (f *front) admit(a *acceptor, tcp *net.TCPConn) *clientConn {
	f.counters.accepted.Add(1)
	if n := f.counters.open.Add(1); n > int64(f.limits.Connections) {
		f.counters.open.Add(-1)
		f.counters.overLimit.Add(1)
		return nil
	}
	raw := newSocket(tcp)
	c := &clientConn{front: f, acceptor: a, since: unixNow(), raw: raw, conn: raw}
	c.remote = []byte(raw.RemoteAddr().String())
	c.slot.conn = c
	c.watched = f.watch.add(tcp, &c.slot)
	f.conns.add(c)
	return c
}

// leave closes the connection and forgets it. Idempotent.
func (c *clientConn) leave() {
	if c.left.Swap(true) {
		return
	}
	f := c.front
	f.watch.remove(c.watched)
	_ = c.raw.Close()
	f.counters.open.Add(-1)
	f.conns.remove(c) // last: a drain ends with it
}

const (
	// lingerBytes and lingerTime bound how long a connection that we close is
	// read on, so that the client gets our last answer instead of a reset. A
	// client that looks for an answer only after its upload, as most do, gets
	// the 413 for a body twice the usual limit.
	lingerBytes = 64 << 20
	lingerTime  = 2 * time.Second
)

// linger ends our direction and reads the client's until it ends too, within
// bounds.
func (c *clientConn) linger() {
	if cw, ok := c.conn.(interface{ CloseWrite() error }); ok {
		_ = c.conn.SetWriteDeadline(time.Now().Add(lingerTime))
		if cw.CloseWrite() != nil {
			return
		}
	}
	if c.conn != net.Conn(c.raw) {
		_ = c.raw.CloseWrite()
	}
	_ = c.raw.SetReadDeadline(time.Now().Add(lingerTime))
	buf := readBuffers.get(smallBuffer)
	defer readBuffers.put(buf)
	for left := lingerBytes; left > 0; {
		n, err := c.raw.Read(buf)
		if err != nil {
			return
		}
		left -= n
	}
}

// overLimitAnswers bounds the goroutines that tell clients over the limit why.
const overLimitAnswers = 64

var overLimitAnswering atomic.Int32

// turnAway answers a cleartext connection over the limit with 503 and closes
// it. Under an onslaught, and with TLS, it is only closed.
func (f *front) turnAway(raw *net.TCPConn, tls bool) {
	if tls || overLimitAnswering.Add(1) > overLimitAnswers {
		if !tls {
			overLimitAnswering.Add(-1)
		}
		_ = raw.Close()
		return
	}
	go func() {
		defer overLimitAnswering.Add(-1)
		defer raw.Close()
		s := newSocket(raw)
		c := clientConn{front: f, raw: s, conn: s}
		_ = raw.SetWriteDeadline(time.Now().Add(lingerTime))
		if _, err := raw.Write(appendRefusal(nil, &refuseFull, false)); err == nil {
			c.linger()
		}
	}()
}
