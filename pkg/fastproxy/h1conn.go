package fastproxy

import "net"

// h1conn is an HTTP/1.x client connection: its request loop (h1.go), what it
// reads (h1read.go, h1body.go) and what it writes (h1write.go, h1stream.go).
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
	next            nextStep
	// begun: a request's head has been taken, and serve is to go on with it.
	begun bool
	heads *h1heads // of the request that is served
	// answered: a byte of the current exchange's answer has been written.
	answered bool
	x        *exchange
	stream   h1stream
	vector   [2][]byte
	vectors  net.Buffers
}

// nextStep is what happens to the connection after a request.
type nextStep uint8

const (
	stepOn     nextStep = iota // it takes the next request
	stepClose                  // nothing is in flight: close
	stepLinger                 // close after the client has had time to read
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
		c.rest()
		if err := c.fill(); err != nil {
			c.waitedInVain(err)
			return false
		}
		c.wake()
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
