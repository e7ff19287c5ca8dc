package fastproxy

import (
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
	waitBegan       int64 // when the wait for the first header block began
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
