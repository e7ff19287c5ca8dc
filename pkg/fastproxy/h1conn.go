package fastproxy

import (
	"bytes"
	"io"
	"net"
	"time"
)

// h1conn is an HTTP/1.x client connection. To fasthttp's connection loop it is
// a net.Conn that yields one gated header block at a time and never a byte of a
// body; bodies are read through h1body and answers are written here directly.
// What fasthttp writes after a handler is thrown away (muted).
type h1conn struct {
	*clientConn
	buf  []byte // what was read: [r:w) is not consumed yet
	r, w int
	scan headScan
	gate gate
	body h1body
	// scratch holds what the request's slices point to, because buf moves on.
	scratch []byte
	// built is memory for what the gate builds.
	built []byte

	readBy, writeBy int64 // armed deadlines, Unix nanoseconds; 0: none
	headBegan       int64 // when the first byte of the header block came
	served          int   // requests so far

	// large: the loop that runs now takes header blocks of any size.
	large bool
	next  nextStep
	muted bool
	// answered: a byte of the current exchange's answer has been written.
	answered bool
	x        *exchange
	stream   h1stream
	vector   [2][]byte
	vectors  net.Buffers
}

// nextStep is what happens to the connection when fasthttp's loop has ended.
type nextStep uint8

const (
	stepClose  nextStep = iota // nothing is in flight: close
	stepLinger                 // close after the client has had time to read
	stepResize                 // go on in the loop of the other size
	stepTunnel                 // the exchange became a tunnel, which ends the connection
)

func newH1conn(c *clientConn) *h1conn {
	h := &h1conn{clientConn: c, buf: readBuffers.get(smallBuffer)}
	h.body.c = h
	return h
}

// release gives the connection's memory back.
func (c *h1conn) release() {
	readBuffers.put(c.buf)
	c.buf = nil
}

// buffered is what has been read and not consumed.
func (c *h1conn) buffered() []byte { return c.buf[c.r:c.w] }

// sniffHTTP2 reads until the first bytes tell the protocol; true: HTTP/2.
func (c *h1conn) sniffHTTP2() bool {
	for {
		begins, whole := isPreface(c.buffered())
		if !begins || whole {
			return whole
		}
		if c.fillHead(time.Now().UnixNano()) != nil {
			return false // the request loop meets the same error
		}
	}
}

// Read hands the next request's header block to fasthttp, composed by the gate.
// io.EOF ends fasthttp's loop without an answer of its own.
func (c *h1conn) Read(p []byte) (int, error) {
	c.muted = false
	if c.next != stepClose || c.served > 0 && !c.betweenRequests() {
		return 0, io.EOF
	}
	head, r := c.readHead()
	if r == nil && head == nil {
		return 0, io.EOF
	}
	c.built = c.built[:0]
	if r == nil {
		r = c.gate.examine(head, &c.built)
	}
	if r != nil {
		c.refuse(r)
		return 0, io.EOF
	}
	if len(head) > len(p) {
		c.next = stepResize
		c.scan = headScan{}
		return 0, io.EOF
	}
	n := c.gate.compose(p, head)
	c.keep()
	c.r += len(head)
	c.scan = headScan{}
	c.body.begin(&c.gate)
	c.served++
	return n, nil
}

// betweenRequests finishes the request that was served; false: the connection
// ends, or goes on in another loop (c.next tells).
func (c *h1conn) betweenRequests() bool {
	if !c.body.drain() {
		c.next = stepLinger
		return false
	}
	if c.body.interrupted.Load() {
		c.readBy = 0 // interrupt has set the deadline
	}
	if c.large && c.r == c.w {
		c.next = stepResize
		c.shrink()
		return false
	}
	return true
}

// shrink goes back to a small read buffer.
func (c *h1conn) shrink() {
	c.r, c.w = 0, 0
	if len(c.buf) > smallBuffer {
		c.buf = readBuffers.get(smallBuffer)
	}
}

// keep copies what the request's slices point to out of the read buffer.
func (c *h1conn) keep() {
	g, t := &c.gate, &c.gate.target
	c.scratch = c.scratch[:0]
	shared := &t.canonical[0] == &t.path[0]
	if shared {
		t.canonical = nil
	}
	for _, s := range [...]*[]byte{&g.method, &t.target, &t.authority, &t.host, &t.canonical, &g.upgrade} {
		if len(*s) == 0 {
			continue
		}
		n := len(c.scratch)
		c.scratch = append(c.scratch, *s...)
		*s = c.scratch[n:len(c.scratch):len(c.scratch)]
	}
	pathLen := len(t.path)
	t.path = t.target[:pathLen]
	if t.query != nil {
		t.query = t.target[pathLen+1:]
	}
	if shared {
		t.canonical = t.path
	}
}

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
	if c.served == 0 && !c.large && c.since.UnixNano()+int64(c.front.timeouts.Header) > now {
		c.armReadBy(c.since.UnixNano() + int64(c.front.timeouts.Header))
	} else {
		c.armRead(now, c.front.timeouts.ClientIdle)
	}
	if !c.claim(connNew, connNew) {
		c.state.Store(int32(connIdle))
	}
	// A drain that begins from here on finds the connection idle and wakes it.
	if c.front.ending(c.clientConn) && c.served > 0 {
		return net.ErrClosed
	}
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

// Write takes what fasthttp writes: thrown away behind an answer of ours, sent
// where fasthttp itself refused a block.
func (c *h1conn) Write(p []byte) (int, error) {
	if c.muted {
		return len(p), nil
	}
	if err := c.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close does nothing: the connection outlives fasthttp's loop.
func (c *h1conn) Close() error { return nil }

// The rest of net.Conn. Deadlines are ours; fasthttp sets none.
func (c *h1conn) LocalAddr() net.Addr              { return c.raw.LocalAddr() }
func (c *h1conn) RemoteAddr() net.Addr             { return c.raw.RemoteAddr() }
func (c *h1conn) SetDeadline(time.Time) error      { return nil }
func (c *h1conn) SetReadDeadline(time.Time) error  { return nil }
func (c *h1conn) SetWriteDeadline(time.Time) error { return nil }
