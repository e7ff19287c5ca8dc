package fastproxy

import (
	"net"
)

// write writes b whole to the client, or returns errClientWrite. The stall
// time-out counts anew for every piece; most answers need none.
func (c *h1conn) write(b []byte) error {
	c.answered = true
	if c.conn == net.Conn(c.raw) {
		n, err := c.raw.writeNow(b)
		if err != nil {
			return errClientWrite
		}
		b = b[n:]
	}
	for len(b) > 0 {
		piece := b[:min(len(b), clientPiece)]
		c.armWrite()
		if _, err := c.conn.Write(piece); err != nil {
			return errClientWrite
		}
		b = b[len(piece):]
	}
	return nil
}

// clientPiece bounds what one write-stall time-out is for.
const clientPiece = 256 << 10

// writeTwo writes head and body in one system call where the connection can.
func (c *h1conn) writeTwo(head, body []byte) error {
	if c.conn != net.Conn(c.raw) {
		if err := c.write(head); err != nil {
			return err
		}
		return c.write(body)
	}
	c.answered = true
	c.armWrite()
	first := body[:min(len(body), clientPiece)]
	c.vector[0], c.vector[1] = head, first
	c.vectors = c.vector[:]
	_, err := c.vectors.WriteTo(c.raw.TCPConn)
	c.vector[0], c.vector[1] = nil, nil
	if err != nil {
		return errClientWrite
	}
	return c.write(body[len(first):])
}

// armWrite bounds the next write by the stall time-out, coarsely.
func (c *h1conn) armWrite() {
	now, d := unixNow(), c.front.timeouts.WriteStall
	if c.writeBy-now < int64(d/2) {
		c.writeBy = now + int64(d)
		_ = c.conn.SetWriteDeadline(atUnix(c.writeBy))
	}
}
