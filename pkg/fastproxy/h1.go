package fastproxy

import (
	"io"
	"log"
	"math"
	"time"

	"github.com/valyala/fasthttp"
)

// smallHead is up to which size header blocks go through the loop with small
// buffers, which most connections never leave.
const smallHead = 6 << 10

// newCodec returns the fasthttp server whose loop serves connections with header
// blocks up to headBytes. It parses blocks and calls the handler, no more: no
// time-outs, no bodies, no answers of its own but to blocks that the gate let
// through and it does not.
func newCodec(f *front, headBytes int) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:                       serveH1,
		ErrorHandler:                  h1CodecError,
		ReadBufferSize:                headBytes,
		WriteBufferSize:               512, // only for answers that nobody sees
		Concurrency:                   math.MaxInt32,
		NoDefaultServerHeader:         true,
		NoDefaultDate:                 true,
		NoDefaultContentType:          true,
		DisablePreParseMultipartForm:  true,
		DisableHeaderNamesNormalizing: false,
		LazyRequestTime:               true,
		SecureErrorLogMessage:         true,
		Logger:                        log.New(io.Discard, "", 0),
	}
}

// serve runs the connection until it ends.
func (c *h1conn) serve() {
	for {
		c.next = stepClose
		codec := c.front.small
		if c.large {
			codec = c.front.large
		}
		_ = codec.ServeConn(c) // its errors are answers already sent
		switch c.next {
		case stepResize:
			c.large = !c.large
			continue
		case stepLinger:
			c.linger()
		}
		return
	}
}

// refuse answers a message that the gate does not let through.
func (c *h1conn) refuse(r *refusal) {
	c.front.counters.refused.add(r.reason)
	headOnly := string(c.gate.method) == "HEAD"
	if c.write(appendRefusal(nil, r, headOnly)) == nil {
		c.next = stepLinger
	}
}

// h1CodecError answers a block that fasthttp does not parse although the gate
// let it through.
func h1CodecError(ctx *fasthttp.RequestCtx, _ error) {
	if c, ok := ctx.Conn().(*h1conn); ok {
		c.front.counters.refused.add("codec")
		c.next = stepLinger
	}
	ctx.Error("malformed request", fasthttp.StatusBadRequest)
}

// serveH1 is one request of an h1conn, from its parsed block to its answer.
func serveH1(ctx *fasthttp.RequestCtx) {
	c := ctx.Conn().(*h1conn)
	c.muted, c.answered = true, false
	x := c.front.core.acquire()
	c.x = x
	defer c.endExchange(ctx)
	c.fillRequest(x, ctx)
	c.front.core.serve(x)
	if !c.respond(x) {
		ctx.SetConnectionClose()
	}
	if x.tunnel && c.next == stepTunnel {
		c.tunnel(x)
	}
}

// fillRequest puts the neutral form of the request into x.
func (c *h1conn) fillRequest(x *exchange, ctx *fasthttp.RequestCtx) {
	g, t := &c.gate, &c.gate.target
	h := &ctx.Request.Header
	h.SetRequestURIBytes(t.target)
	h.Del("Content-Length") // fasthttp puts 0 where the block it got has none
	g.close = g.close || h.ConnectionClose()
	x.slot, x.port, x.sniListener = &c.slot, c.acceptor.port, c.listenerKey
	x.interim = nil
	if !g.http10 {
		x.interim = c
	}
	x.req = request{
		header: h, method: g.method, target: t.target, path: t.path, query: t.query,
		matchPath: t.canonical, authority: t.authority, host: t.host,
		remote: c.remote, upgrade: g.upgrade, body: &c.body,
		tls: c.listenerKey != "", http10: g.http10,
	}
	x.resp = response{header: &ctx.Response.Header, body: x.resp.body[:0]}
}

// endExchange gives the exchange back, whatever happened. After a panic the
// client gets a 500 where nothing has been sent, and the connection ends.
func (c *h1conn) endExchange(ctx *fasthttp.RequestCtx) {
	if v := recover(); v != nil {
		c.front.caught(v)
		if !c.answered {
			_ = c.write(appendRefusal(nil, &refusePanic, ctx.IsHead()))
		}
		c.next = stepLinger
		ctx.SetConnectionClose()
	}
	c.stream.release()
	c.finishExchange()
	closing := ctx.Response.Header.ConnectionClose()
	ctx.Response.Reset()
	if closing {
		ctx.Response.Header.SetConnectionClose()
	}
}

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

// respond sends the answer in x.resp; false: the connection must end.
func (c *h1conn) respond(x *exchange) bool {
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
	if f.close && c.next == stepClose && !c.gate.close {
		c.next = stepLinger
	}
	if r.stream && !bodiless && !x.tunnel {
		return c.sendStream(x, f) && !f.close
	}
	body := r.body
	if bodiless {
		body = nil
	}
	if c.sendComplete(r.header, body, f) != nil {
		return false
	}
	if x.tunnel {
		c.next = stepTunnel
	}
	return !f.close && !x.tunnel
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
func (c *h1conn) sendStream(x *exchange, f headFraming) bool {
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
	return true
}

// cut ends the connection in the middle of an answer. Where only its end tells
// the client that the answer is complete, it is reset.
func (c *h1conn) cut(f headFraming) bool {
	c.next = stepClose
	if f.length == lengthClose {
		_ = c.raw.SetLinger(0)
	}
	return false
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
