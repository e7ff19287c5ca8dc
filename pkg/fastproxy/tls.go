package fastproxy

import (
	"crypto/tls"
	"time"

	"flexinfer.ai/gateway/pkg/routing"
)

// tlsFront holds what all handshakes share. The configuration of each one is
// taken from the live snapshot, so new certificates count from the next
// handshake on; the keys of session tickets belong to base and outlive every
// swap (crypto/tls rotates them).
type tlsFront struct {
	front *front
	base  *tls.Config
}

func newTLSFront(f *front) *tlsFront {
	t := &tlsFront{front: f}
	t.base = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: t.configFor}
	return t
}

// handshakeConn is the TCP connection below a handshake; it takes the choice of
// a listener from configFor to the connection.
type handshakeConn struct {
	*socket
	port     uint16
	listener *routing.CompiledListener
}

// alpn are the protocols offered, the preferred one first.
var alpn = []string{"h2", "http/1.1"}

// configFor chooses the listener by SNI and gives its certificates. Where none
// takes the name, a configuration without certificates makes crypto/tls refuse
// with the alert unrecognized_name.
func (t *tlsFront) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	c := hello.Conn.(*handshakeConn)
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: alpn}
	port := t.front.core.socket(c.port)
	if port == nil {
		return config, nil
	}
	name, ok := splitAuthority([]byte(hello.ServerName))
	if !ok {
		return config, nil
	}
	if c.listener = port.Listener(appendLower(nil, name)); c.listener != nil {
		config.Certificates = c.listener.Certificates
	}
	return config, nil
}

// handshake makes the connection TLS; false: it failed and has been answered
// with an alert. The protocol is what ALPN agreed on, "" for none.
func (c *clientConn) handshake() (protocol string, ok bool) {
	below := &handshakeConn{socket: c.raw, port: c.acceptor.port}
	conn := tls.Server(below, c.front.tls.base)
	_ = c.raw.SetDeadline(time.Now().Add(c.front.timeouts.Handshake))
	if err := conn.Handshake(); err != nil || below.listener == nil {
		c.front.counters.tlsFailed.Add(1)
		return "", false
	}
	_ = c.raw.SetDeadline(time.Time{})
	c.conn = conn
	c.listenerKey = below.listener.Key
	return conn.ConnectionState().NegotiatedProtocol, true
}
