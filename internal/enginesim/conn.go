package enginesim

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxRecordedHeader bounds the header block kept for /echo.
const maxRecordedHeader = 256 << 10

// engineConn is a client connection that remembers the header block of the
// request it carries, byte for byte, and closes itself after idling too long.
//
// Recording runs from the end of one request's body to the header of the next.
// net/http parses headers into a map, which loses order and spelling.
type engineConn struct {
	net.Conn

	mu        sync.Mutex
	recording bool
	recorded  []byte
	idleTimer *time.Timer
	idle      bool
}

func (c *engineConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	if c.recording && len(c.recorded)+n <= maxRecordedHeader {
		c.recorded = append(c.recorded, p[:n]...)
	}
	c.mu.Unlock()
	return n, err
}

// takeHeader stops recording and returns the header block of the request whose
// handler runs now: request line and fields, without the empty line at the end.
// It is nil when the block is not known, as for pipelined requests and HTTP/2.
func (c *engineConn) takeHeader(r *http.Request) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	block, _, found := bytes.Cut(c.recorded, []byte("\r\n\r\n"))
	c.recording, c.recorded = false, nil
	line := r.Method + " " + r.RequestURI + " "
	if !found || !bytes.HasPrefix(block, []byte(line)) {
		return nil
	}
	return block
}

// recordNext starts recording the next request. All bytes of this one must have
// been read.
func (c *engineConn) recordNext() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recording = true
}

// stopRecording is for a connection that carries HTTP no longer.
func (c *engineConn) stopRecording() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recording, c.recorded = false, nil
}

// setIdle arms the idle timer, or disarms it for a connection in use. The lock
// decides between a request that starts and a timer that fires.
func (c *engineConn) setIdle(idle bool, timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = idle
	if c.idleTimer != nil {
		c.idleTimer.Stop()
		c.idleTimer = nil
	}
	if !idle || timeout <= 0 {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(timeout, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.idle && c.idleTimer == timer {
			_ = c.Close() // the peer may have closed first
		}
	})
	c.idleTimer = timer
}

func (c *engineConn) isIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle
}

// connSet holds the open connections. Safe for concurrent use.
type connSet struct {
	mu          sync.Mutex
	open        map[*engineConn]struct{}
	tunnels     map[net.Conn]struct{} // hijacked by WebSocket, unknown to the http.Server
	accepted    uint64
	idleTimeout time.Duration
}

// ConnStats counts client connections, tunnels included.
type ConnStats struct {
	Accepted uint64 `json:"accepted"`
	Open     int    `json:"open"`
}

func (s *connSet) stats() ConnStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ConnStats{Accepted: s.accepted, Open: len(s.open) + len(s.tunnels)}
}

// setIdleTimeout applies to idle connections at once, counted from now.
func (s *connSet) setIdleTimeout(timeout time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idleTimeout = timeout
	for c := range s.open {
		if c.isIdle() {
			c.setIdle(true, timeout)
		}
	}
}

func (s *connSet) idleTimeoutNow() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idleTimeout
}

func (s *connSet) addTunnel(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tunnels[conn] = struct{}{}
	if c, ok := conn.(*engineConn); ok {
		c.stopRecording()
	}
}

func (s *connSet) removeTunnel(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tunnels, conn)
}

func (s *connSet) closeTunnels() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.tunnels {
		_ = conn.Close() // the peer may have closed first
	}
}

// onState is the http.Server's ConnState hook.
func (s *connSet) onState(conn net.Conn, state http.ConnState) {
	c, ok := conn.(*engineConn)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.accepted++
		s.open[c] = struct{}{}
	case http.StateIdle:
		c.recordNext() // a body that nobody read to its end was drained by net/http
		c.setIdle(true, s.idleTimeout)
	case http.StateActive:
		c.setIdle(false, 0)
	case http.StateClosed, http.StateHijacked:
		c.setIdle(false, 0)
		delete(s.open, c)
	}
}

// engineListener wraps what it accepts into engineConn.
type engineListener struct{ net.Listener }

func (l engineListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &engineConn{Conn: conn, recording: true}, nil
}

type connKey struct{}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// connOf returns the connection of a request, nil when the Engine is mounted in
// somebody else's server.
func connOf(r *http.Request) *engineConn {
	c, _ := r.Context().Value(connKey{}).(*engineConn)
	return c
}
