package fastproxy

import (
	"net"
	"runtime"
	"time"

	"github.com/valyala/fasthttp"
)

// serve runs the connection until it ends. Requests that arrive whole are
// served where they arrive, by received; one whose body is still on its way, or
// that asks for another protocol, is served here, where it may be waited for.
func (c *h1conn) serve() {
	for c.next == stepOn {
		switch err := c.await(); {
		case c.begun:
			c.serveRequest()
		case err != nil && c.next == stepOn:
			c.waitedInVain(err)
		}
	}
	if c.next == stepLinger {
		c.linger()
	}
}

// await gives all that arrives to received until that has enough.
func (c *h1conn) await() error {
	if c.received(0) {
		return nil
	}
	if c.conn == net.Conn(c.raw) && c.watched != 0 {
		return c.raw.attend(c)
	}
	return attend(c.conn, c)
}

// received takes the n bytes that were read into room and serves the requests
// that are whole (attendant); true: serve has to go on.
func (c *h1conn) received(n int) bool {
	c.w += n
	if n > 0 {
		c.wake()
	}
	for c.next == stepOn && c.nextRequest() {
		if !c.body.arrived() || c.gate.upgrade != nil {
			c.begun = true
			return true
		}
		c.serveRequest()
	}
	if c.next != stepOn {
		return true
	}
	c.rest()
	return false
}

// nextRequest takes the next request's head from what was received: finds its
// end and has the gate read it. false: it is not there yet, or it was refused,
// which ends the connection.
func (c *h1conn) nextRequest() bool {
	head, r := c.findHead()
	if head == nil && r == nil {
		return false
	}
	c.built = c.built[:0]
	if r == nil {
		c.heads = takeHeads(len(head))
		r = c.gate.examine(head, &c.heads.request, &c.built)
	}
	if r != nil {
		c.heads.release()
		c.heads = nil
		c.refuse(r)
		return false
	}
	c.keep()
	c.r += len(head)
	c.scan = headScan{}
	c.headBegan = 0
	c.body.begin(&c.gate)
	c.served++
	return true
}

// refuse answers a message that the gate does not let through.
func (c *h1conn) refuse(r *refusal) {
	c.front.counters.refused.add(r.reason)
	headOnly := string(c.gate.method) == "HEAD"
	c.next = stepClose
	if c.write(appendRefusal(nil, r, headOnly)) == nil {
		c.next = stepLinger
	}
}

// serveRequest is one request, from its head to the end of its answer.
func (c *h1conn) serveRequest() {
	c.begun, c.answered = false, false
	x := c.front.core.acquire()
	c.x = x
	defer c.endExchange()
	c.fillRequest(x)
	c.front.core.serve(x)
	c.respond(x)
	if c.next == stepTunnel {
		c.tunnel(x)
	}
}

// fillRequest puts the neutral form of the request into x.
func (c *h1conn) fillRequest(x *exchange) {
	g, t := &c.gate, &c.gate.target
	x.slot, x.port, x.sniListener = &c.slot, c.acceptor.port, c.listenerKey
	x.interim = nil
	if !g.http10 {
		x.interim = c
	}
	x.req = request{
		header: &c.heads.request, method: g.method, target: t.target, path: t.path, query: t.query,
		matchPath: t.canonical, authority: t.authority, host: t.host,
		remote: c.remote, upgrade: g.upgrade, body: &c.body,
		tls: c.listenerKey != "", http10: g.http10,
	}
	x.resp = response{header: &c.heads.response, body: x.resp.body[:0]}
}

// endExchange gives the exchange back, whatever happened, and reads away what is
// left of the request's body. After a panic the client gets a 500 where nothing
// has been sent, and the connection ends.
func (c *h1conn) endExchange() {
	if v := recover(); v != nil {
		c.front.caught(v)
		if !c.answered {
			_ = c.write(appendRefusal(nil, &refusePanic, c.method("HEAD")))
		}
		c.next = stepLinger
	}
	c.stream.release()
	c.finishExchange()
	c.heads.release()
	c.heads = nil
	if c.next == stepOn && !c.body.drain() {
		c.next = stepLinger
	}
	if c.body.interrupted.Load() {
		c.readBy = 0 // interrupt has set the deadline
	}
	if c.r < c.w && c.served%turnRequests == 0 {
		runtime.Gosched()
	}
}

// turnRequests is after how many requests of a client that sends ahead others
// get a turn. The runtime would let each wait 10 ms for each such client.
const turnRequests = 16

// finishExchange calls finish once and lets go of the exchange; a panic in it
// is recorded and ends nothing else.
func (c *h1conn) finishExchange() {
	x := c.x
	c.x = nil
	if x == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			c.front.caught(v)
		}
	}()
	c.front.core.finish(x)
	x.req, x.resp, x.slot, x.interim = request{}, response{}, nil, nil
	c.front.core.release(x)
}

// respond sends the answer in x.resp and decides how the connection goes on.
func (c *h1conn) respond(x *exchange) {
	r := &x.resp
	f := headFraming{http10: c.gate.http10, close: c.closes(r)}
	status := r.header.StatusCode()
	bodiless := c.method("HEAD") || status < 200 || status == fasthttp.StatusNoContent || status == fasthttp.StatusNotModified
	switch {
	case x.tunnel:
		f.upgrade, f.length = true, lengthNone
	case bodiless && (r.stream || len(r.body) == 0):
		f.length = lengthKept
		if r.stream && r.length >= 0 {
			f.length = r.length
		}
	case !r.stream:
		f.length = int64(len(r.body))
	case r.length >= 0:
		f.length = r.length
	case f.http10:
		f.length, f.close = lengthClose, true
	default:
		f.length = lengthChunked
	}
	if status < 200 || status == fasthttp.StatusNoContent {
		f.length = lengthNone
	}
	if r.stream && !bodiless && !x.tunnel {
		c.next = c.sendStream(x, f)
		return
	}
	body := r.body
	if bodiless {
		body = nil
	}
	switch {
	case c.sendComplete(r.header, body, f) != nil:
		c.next = stepClose
	case x.tunnel:
		c.next = stepTunnel
	default:
		c.next = c.after(f)
	}
}

// after is the step after an answer that was sent whole.
func (c *h1conn) after(f headFraming) nextStep {
	switch {
	case !f.close:
		return stepOn
	case c.gate.close:
		return stepClose
	}
	return stepLinger
}

// closes decides whether the connection ends with this answer.
func (c *h1conn) closes(r *response) bool {
	return r.close || c.gate.close || !c.body.drainable() || c.slot.gone.Load() || c.front.ending(c.clientConn)
}

func (c *h1conn) method(m string) bool { return string(c.gate.method) == m }

// sendComplete writes head and body, in one write where they are small.
func (c *h1conn) sendComplete(h *fasthttp.ResponseHeader, body []byte, f headFraming) error {
	out := outBuffers.Get().(*outBuffer)
	defer outBuffers.Put(out)
	head := appendHead(out.b[:0], h, f)
	if len(head)+len(body) <= outBufferSize {
		return c.write(append(head, body...))
	}
	return c.writeTwo(head, body)
}

// sendStream writes the head at once and then the body as the core streams it.
// A body that breaks off leaves its framing incomplete and the connection
// closed, so that the client can tell.
func (c *h1conn) sendStream(x *exchange, f headFraming) nextStep {
	s := &c.stream
	s.begin(c, f.length)
	if c.write(appendHead(s.out.b[:0], x.resp.header, f)) != nil {
		return c.cut(f)
	}
	if _, err := c.front.core.stream(x, s); err != nil {
		if err != errClientWrite {
			_ = s.Flush()
		}
		return c.cut(f)
	}
	if err := s.end(x); err != nil {
		return c.cut(f)
	}
	return c.after(f)
}

// cut ends the connection in the middle of an answer. Where only its end tells
// the client that the answer is complete, it is reset.
func (c *h1conn) cut(f headFraming) nextStep {
	if f.length == lengthClose {
		_ = c.raw.SetLinger(0)
	}
	return stepClose
}

// inform passes an informational answer on (informer).
func (c *h1conn) inform(h *fasthttp.ResponseHeader) {
	out := outBuffers.Get().(*outBuffer)
	answered := c.answered
	_ = c.write(appendInterim(out.b[:0], h))
	c.answered = answered
	outBuffers.Put(out)
}

// tunnel runs the tunnel that the exchange has become, to its end.
func (c *h1conn) tunnel(x *exchange) {
	c.state.Store(int32(connTunnel))
	c.front.watch.remove(c.watched) // a tunnel may be half-closed
	_ = c.conn.SetDeadline(time.Time{})
	c.front.core.tunnel(x, c.conn, c.buffered())
}
