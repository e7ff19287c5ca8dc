package publish

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// Bounds on who may take the controller's memory by being connected. A gateway
// pod has one connection, for a moment two. Strangers are those who have shown no
// client certificate: whoever reaches the port.
const (
	maxConnections   = 4096
	maxOfOnePeer     = 32 // from one address
	maxStrangers     = 512
	strangerTime     = 30 * time.Second // for the handshake and Enroll
	maxStrangerBytes = 128 << 10        // that a stranger may send
)

// admission accepts connections within the bounds and closes what is over them.
type admission struct {
	net.Listener
	metrics *metrics

	mu              sync.Mutex
	open, strangers int
	peers           map[string]int // by address
}

func newAdmission(l net.Listener, m *metrics) *admission {
	return &admission{Listener: l, metrics: m, peers: map[string]int{}}
}

// Accept waits for a connection within the bounds.
func (a *admission) Accept() (net.Conn, error) {
	for {
		raw, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := a.admit(raw); c != nil {
			a.metrics.connections.WithLabelValues("admitted").Inc()
			return c, nil
		}
		a.metrics.connections.WithLabelValues("refused").Inc()
		_ = raw.Close()
	}
}

// admit takes a connection in as a stranger's; nil: there are too many.
func (a *admission) admit(raw net.Conn) *admitted {
	peer, _, err := net.SplitHostPort(raw.RemoteAddr().String())
	if err != nil {
		peer = raw.RemoteAddr().String()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open >= maxConnections || a.strangers >= maxStrangers || a.peers[peer] >= maxOfOnePeer {
		return nil
	}
	a.open, a.strangers = a.open+1, a.strangers+1
	a.peers[peer]++
	c := &admitted{Conn: raw, admission: a, peer: peer, stranger: true}
	c.left.Store(maxStrangerBytes)
	c.end = time.AfterFunc(strangerTime, func() { _ = c.Close() })
	return c
}

// admitted is a connection that counts.
type admitted struct {
	net.Conn
	admission *admission
	peer      string
	left      atomic.Int64 // bytes that may still be read; negative once it is known

	// Guarded by admission.mu.
	stranger, closed bool
	end              *time.Timer
}

var errTooMuch = errors.New("more was sent than it takes to enroll")

// Read reads, from a stranger no more than it takes to enroll.
func (c *admitted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if known := c.left.Load() < 0; !known && c.left.Add(-int64(n)) <= 0 {
		_ = c.Close()
		return 0, errTooMuch
	}
	return n, err
}

// known says that the peer has shown a certificate that holds until a time.
func (c *admitted) known(until time.Time) {
	a := c.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.closed || !c.stranger {
		return
	}
	c.stranger = false
	a.strangers--
	c.left.Store(-1)
	c.end.Reset(time.Until(until) + strangerTime) // streams end by themselves, with a word
}

// Close closes the connection, which counts no more.
func (c *admitted) Close() error {
	a := c.admission
	a.mu.Lock()
	if !c.closed {
		c.closed = true
		c.end.Stop()
		a.open--
		if c.stranger {
			a.strangers--
		}
		if a.peers[c.peer]--; a.peers[c.peer] <= 0 {
			delete(a.peers, c.peer)
		}
	}
	a.mu.Unlock()
	return c.Conn.Close()
}

// handshakes are TLS credentials that tell admission who is known.
type handshakes struct {
	credentials.TransportCredentials
}

func newHandshakes(config *tls.Config) credentials.TransportCredentials {
	return handshakes{credentials.NewTLS(config)}
}

// ServerHandshake shakes hands.
func (h handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	if t, ok := info.(credentials.TLSInfo); ok && len(t.State.VerifiedChains) > 0 {
		if c, ok := raw.(*admitted); ok {
			c.known(t.State.VerifiedChains[0][0].NotAfter)
		}
	}
	return conn, info, nil
}

// Clone returns a copy.
func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone()}
}
