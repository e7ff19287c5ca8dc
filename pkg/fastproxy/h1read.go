package fastproxy

import (
	"bytes"
	"io"
	"time"
)

// findHead returns the next header block; nil without a refusal: it has not
// arrived whole yet.
func (c *h1conn) findHead() ([]byte, *refusal) {
	for c.r < c.w {
		block, limit := c.buffered(), c.front.limits.HeaderBytes
		n, skip, r := c.scan.next(block)
		switch {
		case r != nil:
			return nil, r
		case skip > 0:
			c.r += skip
			continue
		case n > limit || n == 0 && len(block) >= limit:
			return nil, tooLarge(block[:limit])
		case n > 0:
			return block[:n], nil
		}
		break
	}
	return nil, nil
}

// tooLarge is the refusal of a header block whose first bytes are begin.
func tooLarge(begin []byte) *refusal {
	if bytes.IndexByte(begin, '\n') < 0 {
		return &refuseURITooLong
	}
	return &refuseHeadSize
}

// rest readies the connection for a wait: for the rest of a header block, which
// may take the header's time from its first byte on, or for a first byte.
func (c *h1conn) rest() {
	now := unixNow()
	if c.r < c.w {
		if c.headBegan == 0 {
			c.headBegan = now
		}
		c.armReadBy(c.headBegan + int64(c.front.timeouts.Header))
		return
	}
	c.r, c.w = 0, 0
	c.shrink()
	if c.served == 0 {
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
	// the client may not know of the end yet, and send. A client that has left
	// while it was not idle has not been seen to.
	if c.slot.gone.Load() {
		c.end()
	}
}

// wake ends a rest: something has come. What a drain has claimed in the meantime
// is served once more.
func (c *h1conn) wake() {
	if !c.claim(connIdle, connActive) && !c.claim(connNew, connActive) && c.claim(connEnding, connActive) {
		c.readBy = 0 // the drain has set the deadline
	}
}

// lastLook is how long a connection that has been claimed is looked at once more
// for a request. A read whose deadline has passed makes no attempt, so it has to
// outlast what a busy machine keeps a goroutine waiting.
const lastLook = 50 * time.Millisecond

// waitedInVain is where a wait for a request has ended without one. A request
// that has arrived on a connection that a drain has claimed is still served.
func (c *h1conn) waitedInVain(err error) {
	if c.wokenLate(err) {
		return
	}
	if c.state.Load() == int32(connEnding) {
		c.readBy = 0
		_ = c.conn.SetReadDeadline(time.Now().Add(lastLook))
		if c.fill() == nil {
			c.wake()
			return
		}
	}
	if c.r < c.w && pastDeadline(err) {
		c.refuse(&refuseSlowHead)
		return
	}
	c.next = stepClose
}

// wokenLate says whether err is not of a time-out but of a drain that has woken
// the connection after something had come and the wait that it meant was over.
func (c *h1conn) wokenLate(err error) bool {
	if !pastDeadline(err) || unixNow() >= c.readBy || c.state.Load() == int32(connEnding) {
		return false
	}
	c.readBy = 0
	return true
}

// room is where the next bytes are read into (attendant): the space behind the
// unread ones, for which the buffer grows up to the limit of a header block.
func (c *h1conn) room() []byte {
	switch {
	case c.w < len(c.buf):
	case c.r > 0:
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	default:
		grown := readBuffers.get(min(4*len(c.buf), c.front.limits.HeaderBytes+smallBuffer))
		copy(grown, c.buf[:c.w])
		readBuffers.put(c.buf)
		c.buf = grown
	}
	return c.buf[c.w:]
}

// shrink goes back to a small read buffer, of an empty one.
func (c *h1conn) shrink() {
	if len(c.buf) > smallBuffer {
		c.buf = readBuffers.get(smallBuffer)
	}
}

// fill reads once, behind the unread bytes.
func (c *h1conn) fill() error {
	n, err := c.conn.Read(c.room())
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
		_ = c.conn.SetReadDeadline(atUnix(t))
	}
}
