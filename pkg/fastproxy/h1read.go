package fastproxy

import (
	"bytes"
	"io"
	"time"
)

// readHead returns the next header block; nil without a refusal: the connection
// is over, silently.
func (c *h1conn) readHead() ([]byte, *refusal) {
	for {
		block := c.buffered()
		if len(block) > 0 {
			n, skip, r := c.scan.next(block)
			switch {
			case r != nil:
				return nil, r
			case skip > 0:
				c.r += skip
				continue
			case n > c.front.limits.HeaderBytes || n == 0 && len(block) >= c.front.limits.HeaderBytes:
				return nil, tooLarge(block[:c.front.limits.HeaderBytes])
			case n > 0:
				c.headBegan = 0
				return block[:n], nil
			}
		}
		err := c.fillHead(time.Now().UnixNano())
		if err == nil {
			continue
		}
		if len(block) > 0 && pastDeadline(err) {
			return nil, &refuseSlowHead
		}
		return nil, nil
	}
}

// tooLarge is the refusal of a header block whose first bytes are begin.
func tooLarge(begin []byte) *refusal {
	if bytes.IndexByte(begin, '\n') < 0 {
		return &refuseURITooLong
	}
	return &refuseHeadSize
}

// fillHead reads more of a header block, or waits for its first byte.
func (c *h1conn) fillHead(now int64) error {
	if c.r < c.w {
		c.state.Store(int32(connActive))
		if c.headBegan == 0 {
			c.headBegan = now
		}
		c.armReadBy(c.headBegan + int64(c.front.timeouts.Header))
		c.room()
		return c.fill()
	}
	c.r, c.w = 0, 0
	if c.served == 0 && !c.large {
		if c.waitBegan == 0 {
			c.waitBegan = now
		}
		c.armReadBy(c.waitBegan + int64(c.front.timeouts.Header))
	} else {
		c.armRead(now, c.front.timeouts.ClientIdle)
	}
	if !c.claim(connNew, connNew) {
		c.state.Store(int32(connIdle))
	}
	// From here on a drain finds the connection idle, and wakes it after a grace:
	// the client may not know of the end yet, and send.
	err := c.fill()
	if c.claim(connIdle, connActive) || c.claim(connNew, connActive) {
		return err
	}
	return c.lastChance(err)
}

// lastChance is for a connection that a drain has claimed while it was idle: a
// request that has arrived already is still served.
func (c *h1conn) lastChance(err error) error {
	if err != nil {
		c.readBy = 0
		_ = c.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		if err = c.fill(); err != nil {
			return err
		}
	}
	c.state.Store(int32(connActive))
	c.readBy = 0
	return nil
}

// room makes space behind the unread bytes, growing the buffer up to the limit
// of a header block.
func (c *h1conn) room() {
	if c.w < len(c.buf) {
		return
	}
	if c.r > 0 {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
		return
	}
	grown := readBuffers.get(min(4*len(c.buf), c.front.limits.HeaderBytes+smallBuffer))
	copy(grown, c.buf[:c.w])
	readBuffers.put(c.buf)
	c.buf = grown
}

// fill reads once into the free part of the buffer, which is not empty.
func (c *h1conn) fill() error {
	n, err := c.conn.Read(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// armRead makes the next read end about d from now. A deadline that is at most
// a quarter too early, and not too late, stays: most requests then set none.
func (c *h1conn) armRead(now int64, d time.Duration) {
	if c.readBy-now < int64(d-d/4) || c.readBy-now > int64(d) {
		c.armReadBy(now + int64(d))
	}
}

// armReadBy makes the next read end at t.
func (c *h1conn) armReadBy(t int64) {
	if c.readBy != t {
		c.readBy = t
		_ = c.conn.SetReadDeadline(time.Unix(0, t))
	}
}
