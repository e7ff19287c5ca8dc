package fastproxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"flexinfer.ai/gateway/pkg/routing"
)

// front is the side of the data plane that faces the clients: the open ports,
// their connections, and the two protocols on them. It turns each request into
// an exchange, hands it to the core and sends the answer.
type front struct {
	limits     Limits
	timeouts   Timeouts
	logger     *slog.Logger
	bindHost   string
	portOffset int
	core       frontCore

	tls      *tlsFront
	watch    *watcher
	conns    registry
	counters frontCounters

	mu        sync.Mutex // guards acceptors and apply against drain
	acceptors map[uint16]*acceptor

	// draining: answers end their connections.
	draining atomic.Bool
}

// frontCore is what the front calls of the core. Tests put an echo there.
type frontCore struct {
	acquire func() *exchange
	release func(*exchange)
	serve   func(*exchange)
	stream  func(*exchange, flushWriter) (int64, error)
	// trailers visits the answer's trailer fields after stream has returned nil.
	trailers func(x *exchange, visit func(name, value []byte))
	tunnel   func(x *exchange, client net.Conn, buffered []byte)
	finish   func(*exchange)
	// socket is the live Socket of a port; nil: the port is not served.
	socket func(port uint16) *routing.Socket
}

// frontCounters count connections; metrics read them.
type frontCounters struct {
	accepted     atomic.Int64 // connections, ever
	open         atomic.Int64 // connections, now
	acceptErrors atomic.Int64 // failed accepts (descriptors exhausted and the like)
	overLimit    atomic.Int64 // connections refused by Limits.Connections
	tlsFailed    atomic.Int64 // handshakes that failed
	panics       atomic.Int64 // panics caught on client connections
	refused      reasonCounters
}

// reasonCounters count messages that the gate refused, by refusal.reason.
type reasonCounters struct{ m sync.Map }

func (c *reasonCounters) add(reason string) {
	n, ok := c.m.Load(reason)
	if !ok {
		n, _ = c.m.LoadOrStore(reason, new(atomic.Int64))
	}
	n.(*atomic.Int64).Add(1)
}

// each visits the reasons seen so far.
func (c *reasonCounters) each(visit func(reason string, n int64)) {
	c.m.Range(func(k, v any) bool {
		visit(k.(string), v.(*atomic.Int64).Load())
		return true
	})
}

// newFront returns the front of s; it listens on nothing until apply.
func newFront(s *Server) *front {
	core := frontCore{
		acquire:  s.acquireExchange,
		release:  func(x *exchange) { exchanges.Put(x) },
		serve:    (*exchange).serve,
		stream:   (*exchange).WriteTo,
		trailers: func(x *exchange, visit func(name, value []byte)) { x.leg.trailer(visit) },
		tunnel:   func(x *exchange, client net.Conn, buffered []byte) { x.runTunnel(client, buffered) },
		finish:   (*exchange).finish,
		socket: func(port uint16) *routing.Socket {
			if snapshot := s.snapshot(); snapshot != nil {
				return snapshot.Socket(port)
			}
			return nil
		},
	}
	return newFrontOf(core, s.options)
}

// newFrontOf returns a front on any core.
func newFrontOf(core frontCore, o Options) *front {
	f := &front{
		limits: o.Limits, timeouts: o.Timeouts, logger: o.Logger,
		bindHost: o.BindAddress, portOffset: o.PortOffset, core: core,
		acceptors: map[uint16]*acceptor{},
	}
	f.tls = newTLSFront(f)
	f.watch = newWatcher(f.logger)
	return f
}

// apply opens, keeps and closes ports so that those of sockets are listened
// on. A port that stays keeps its socket and its connections; connections of a
// port that goes end with their exchanges. The error names every port that
// cannot be bound; the others serve.
func (f *front) apply(sockets []*routing.Socket) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := map[uint16]bool{}
	for _, s := range sockets {
		wanted[s.Port] = true
	}
	for port, a := range f.acceptors {
		if !wanted[port] {
			delete(f.acceptors, port)
			a.retire()
		}
	}
	var failed []error
	for _, s := range sockets {
		if f.acceptors[s.Port] != nil {
			continue
		}
		a, err := f.listen(s.Port)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		f.acceptors[s.Port] = a
		go a.run()
	}
	return errors.Join(failed...)
}

// listen binds a listener port.
func (f *front) listen(port uint16) (*acceptor, error) {
	bound := int(port) + f.portOffset
	if bound <= 0 || bound > 65535 {
		return nil, fmt.Errorf("cannot listen on port %d: with the port offset %d it is %d, no port; change the offset or the listener",
			port, f.portOffset, bound)
	}
	address := net.JoinHostPort(f.bindHost, strconv.Itoa(bound))
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on port %d (address %q): %w; free the port, change the listener's port, or set a port offset if ports below 1024 need privileges",
			port, address, err)
	}
	return newAcceptor(f, port, l), nil
}

// addr is the address that the listener port is bound to; nil: it is not.
func (f *front) addr(port uint16) net.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.acceptors[port]; a != nil {
		return a.listener.Addr()
	}
	return nil
}

// ending says whether a connection must not take another request after the one
// that it serves.
func (f *front) ending(c *clientConn) bool {
	return f.draining.Load() || c.acceptor.retired.Load() ||
		f.limits.ConnectionAge > 0 && unixNow()-c.since > int64(f.limits.ConnectionAge)
}

// shutdownHTTP2 sends GOAWAY on the HTTP/2 connections of s, waits for their
// streams and cuts them when ctx ends.
func shutdownHTTP2(ctx context.Context, s *http.Server) error {
	err := s.Shutdown(ctx)
	if err != nil {
		_ = s.Close()
	}
	return err
}
