package fastproxy

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// acceptor is one listener port: its socket and its accept loop.
type acceptor struct {
	front    *front
	port     uint16
	listener net.Listener
	// retired: the port is no longer served.
	retired atomic.Bool
	http2   *http.Server
	handed  *handover // connections on their way to http2
}

func newAcceptor(f *front, port uint16, l net.Listener) *acceptor {
	a := &acceptor{front: f, port: port, listener: l}
	a.http2, a.handed = newHTTP2(a)
	return a
}

const (
	acceptBackoffFirst = 5 * time.Millisecond
	acceptBackoffMost  = time.Second
)

// run accepts until the listener is closed. No error ends it otherwise: one
// that stays (descriptors used up) is waited for, longer each time.
func (a *acceptor) run() {
	go a.serveHTTP2()
	wait := time.Duration(0)
	for {
		conn, err := a.listener.Accept()
		if err == nil {
			wait = 0
			a.take(conn.(*net.TCPConn))
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		a.front.counters.acceptErrors.Add(1)
		if wait == 0 {
			a.front.logger.Warn("cannot accept connections, trying again", slog.Any("port", a.port), slog.Any("error", err))
		}
		wait = min(max(2*wait, acceptBackoffFirst), acceptBackoffMost)
		time.Sleep(wait)
	}
}

// take starts serving an accepted connection.
func (a *acceptor) take(raw *net.TCPConn) {
	f := a.front
	socket := f.core.socket(a.port)
	if socket == nil {
		_ = raw.Close()
		return
	}
	c := f.admit(a, raw)
	if c == nil {
		f.turnAway(raw, socket.TLS)
		return
	}
	go c.serve(socket.TLS)
}

// serve is the life of a connection: handshake, protocol, requests.
func (c *clientConn) serve(tls bool) {
	handed := false
	defer func() {
		if v := recover(); v != nil {
			c.front.caught(v)
		}
		if !handed {
			c.leave()
		}
	}()
	if tls {
		protocol, ok := c.handshake()
		if !ok {
			return
		}
		if protocol == "h2" {
			handed = c.handOver(c.conn)
			return
		}
	}
	h := newH1conn(c)
	defer h.release()
	if !tls && h.sniffHTTP2() {
		handed = c.handOver(&prefixedConn{Conn: c.raw, prefix: append([]byte(nil), h.buffered()...)})
		return
	}
	h.serve()
}

// caught records a panic of a client connection's goroutine.
func (f *front) caught(v any) {
	f.counters.panics.Add(1)
	f.logger.Error("panic on a client connection; the connection was closed",
		slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
}

// retire closes the port; its connections end with their exchanges, those
// without one at once.
func (a *acceptor) retire() {
	a.retired.Store(true)
	_ = a.listener.Close()
	go func() {
		ctx, cancel := retireContext()
		defer cancel()
		_ = shutdownHTTP2(ctx, a.http2)
	}()
	go a.front.endIdle(a)
}
