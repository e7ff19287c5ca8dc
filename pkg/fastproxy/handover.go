package fastproxy

import (
	"net"
	"sync"
)

// handover passes HTTP/2 connections of a port to net/http, as its listener,
// and remembers whose they are.
type handover struct {
	address net.Addr
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
	owners  sync.Map // net.Conn -> *clientConn
}

func newHandover(address net.Addr) *handover {
	return &handover{address: address, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handover) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (h *handover) Addr() net.Addr { return h.address }

// give hands conn over; false: net/http takes none any more.
func (h *handover) give(conn net.Conn, owner *clientConn) bool {
	h.owners.Store(conn, owner)
	select {
	case h.conns <- conn:
		return true
	case <-h.closed:
		h.owners.Delete(conn)
		return false
	}
}

// owner is the clientConn of a connection that was given.
func (h *handover) owner(conn net.Conn) *clientConn {
	c, _ := h.owners.Load(conn)
	owner, _ := c.(*clientConn)
	return owner
}

// forget ends a connection that was given.
func (h *handover) forget(conn net.Conn) {
	if c, ok := h.owners.LoadAndDelete(conn); ok {
		c.(*clientConn).leave()
	}
}
