package fastproxy

import (
	"bytes"
	"net"
)

// http2Preface is what an HTTP/2 client sends first (RFC 9113 3.4).
var http2Preface = []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

// isPreface says whether b is the beginning of the preface, and the whole of it.
func isPreface(b []byte) (begins, whole bool) {
	n := min(len(b), len(http2Preface))
	begins = bytes.Equal(b[:n], http2Preface[:n])
	return begins, begins && n == len(http2Preface)
}

// prefixedConn is a connection of which some bytes have been read already.
type prefixedConn struct {
	net.Conn
	prefix []byte
}

func (c *prefixedConn) Read(p []byte) (int, error) {
	if len(c.prefix) > 0 {
		n := copy(p, c.prefix)
		c.prefix = c.prefix[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}
