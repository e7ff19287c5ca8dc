package fastproxy

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// http2Streams is how many streams one connection may have open.
	http2Streams = 250
	// http2Ping is after how much silence a connection is probed, http2PingWait
	// how long the answer may take.
	http2Ping, http2PingWait = 30 * time.Second, 15 * time.Second
	// http2Window is how much of one request's body is received ahead of its
	// reader, http2ConnWindow of one connection's bodies together.
	http2Window, http2ConnWindow = 256 << 10, 1 << 20
	// http2Frame is how large a frame may be. Every connection keeps a buffer for
	// the largest that it got.
	http2Frame = 64 << 10
)

// newHTTP2 returns the HTTP/2 server of a port and the listener that feeds it.
func newHTTP2(a *acceptor) (*http.Server, *handover) {
	f := a.front
	handed := newHandover(a.listener.Addr())
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:        http.HandlerFunc(f.serveHTTP2),
		Protocols:      &protocols,
		MaxHeaderBytes: f.limits.HeaderBytes,
		IdleTimeout:    f.timeouts.ClientIdle,
		ErrorLog:       log.New(io.Discard, "", 0), // clients' mistakes
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          http2Streams,
			MaxReceiveBufferPerStream:     http2Window,
			MaxReceiveBufferPerConnection: http2ConnWindow,
			MaxReadFrameSize:              http2Frame,
			SendPingTimeout:               http2Ping,
			PingTimeout:                   http2PingWait,
			WriteByteTimeout:              f.timeouts.WriteStall,
		},
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, ownerKey{}, handed.owner(conn))
		},
		ConnState: func(conn net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				handed.forget(conn)
			}
		},
	}, handed
}

// ownerKey is the context key of an HTTP/2 connection's *clientConn.
type ownerKey struct{}

// serveHTTP2 runs the port's HTTP/2 server until it is shut down.
func (a *acceptor) serveHTTP2() { _ = a.http2.Serve(a.handed) }

// handOver gives the connection to net/http, which owns it from then on; false:
// it takes none any more.
func (c *clientConn) handOver(conn net.Conn) bool {
	_ = c.raw.SetDeadline(time.Time{})
	c.state.Store(int32(connHTTP2))
	c.front.watch.remove(c.watched) // net/http reads all the time and sees it
	return c.acceptor.handed.give(conn, c)
}

// h2stream is one HTTP/2 request and what its exchange needs beside it.
type h2stream struct {
	front   *front
	conn    *clientConn
	w       http.ResponseWriter
	control *http.ResponseController
	body    h2body
	slot    clientSlot
	header  fasthttp.RequestHeader
	answer  fasthttp.ResponseHeader
	scratch []byte
	target  requestTarget
	// left is what a declared length still allows; -1: unknown.
	left     int64
	headSent bool
	// stall ends a write that the client's flow control holds up for too long.
	stall h2alarm
}

// serveHTTP2 is one request over HTTP/2, from its fields to its answer.
func (f *front) serveHTTP2(w http.ResponseWriter, r *http.Request) {
	c, _ := r.Context().Value(ownerKey{}).(*clientConn)
	if c == nil {
		panic(http.ErrAbortHandler)
	}
	s := &h2stream{front: f, conn: c, w: w, control: http.NewResponseController(w)}
	method := []byte(r.Method)
	refused := s.check(method, r)
	if refused != nil {
		f.counters.refused.add(refused.reason)
		s.refuse(refused)
		return
	}
	s.fillHeader(method, r)
	s.body.r, s.body.length, s.body.stream, s.body.grpc = r.Body, r.ContentLength, s, s.isGRPC()
	// The client resets the stream, or its connection ends.
	stop := context.AfterFunc(r.Context(), s.slot.fire)
	x := f.core.acquire()
	s.fillRequest(x, method)
	if !s.run(x) {
		stop()
		panic(http.ErrAbortHandler) // RST_STREAM: the answer is incomplete
	}
	stop()
}

// check applies to HTTP/2 what the gate holds HTTP/1.1 to.
func (s *h2stream) check(method []byte, r *http.Request) *refusal {
	switch {
	case !isToken(method):
		return &refuseMethod
	case r.Method == http.MethodConnect:
		return &refuseConnect
	case r.Host == "":
		return &refuseNoHost
	case len(r.Header) > maxFields:
		return &refuseFieldCount
	}
	return s.target.parse(method, []byte(r.RequestURI), []byte(r.Host), &s.scratch)
}

// fillHeader copies the fields into the neutral form.
func (s *h2stream) fillHeader(method []byte, r *http.Request) {
	h := &s.header
	h.SetMethodBytes(method)
	h.SetRequestURIBytes(s.target.target)
	h.SetHostBytes(s.target.authority)
	for name, values := range r.Header {
		switch name {
		case "Content-Length", "Transfer-Encoding", "Expect", "Trailer", "Connection", "Upgrade", "Host":
			continue
		}
		for _, v := range values {
			h.Add(name, v)
		}
	}
}

// fillRequest puts the neutral form of the request into x.
func (s *h2stream) fillRequest(x *exchange, method []byte) {
	t := &s.target
	x.slot, x.port, x.sniListener = &s.slot, s.conn.acceptor.port, s.conn.listenerKey
	x.interim = s
	x.req = request{
		header: &s.header, method: method, target: t.target, path: t.path, query: t.query,
		matchPath: t.canonical, authority: t.authority, host: t.host,
		remote: s.conn.remote, body: &s.body,
		tls: s.conn.listenerKey != "", http2: true,
		grpc: s.isGRPC(),
	}
	x.resp = response{header: &s.answer}
}

func (s *h2stream) isGRPC() bool {
	return bytes.HasPrefix(s.header.ContentType(), []byte("application/grpc"))
}

// run serves the exchange and sends its answer; false: the answer broke off, or
// the core panicked.
func (s *h2stream) run(x *exchange) (ok bool) {
	f := s.front
	defer func() {
		if v := recover(); v != nil {
			f.caught(v)
			ok = false
			if !s.headSent {
				s.refuse(&refusePanic)
				ok = true
			}
		}
		s.finish(x)
	}()
	f.core.serve(x)
	return s.respond(x)
}

// finish gives the exchange back; a panic in it is recorded.
func (s *h2stream) finish(x *exchange) {
	defer func() {
		if v := recover(); v != nil {
			s.front.caught(v)
		}
	}()
	s.stall.unset() // a panic may have left them set
	s.body.silence.unset()
	s.front.core.finish(x)
	x.req, x.resp, x.slot, x.interim = request{}, response{}, nil, nil
	s.front.core.release(x)
}

// refuse answers with a refusal. The connection stays: framing is HTTP/2's.
func (s *h2stream) refuse(r *refusal) {
	s.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	s.w.WriteHeader(r.status)
	_, _ = io.WriteString(s.w, r.text+"\n")
}

// respond sends the answer in x.resp.
func (s *h2stream) respond(x *exchange) bool {
	r := &x.resp
	status := r.header.StatusCode()
	if status == fasthttp.StatusSwitchingProtocols {
		return false // HTTP/2 has no upgrades, and the core was asked for none
	}
	s.copyHead(r.header)
	header := s.w.Header()
	s.left = -1
	switch {
	case status == fasthttp.StatusNoContent:
		header.Del("Content-Length") // net/http would send it, and its client wait
	case !r.stream:
		if len(r.body) > 0 || bodyAllowed(status) && string(x.req.method) != http.MethodHead {
			header.Set("Content-Length", strconv.Itoa(len(r.body)))
		}
		s.left = int64(len(r.body))
	case r.length >= 0:
		header.Set("Content-Length", strconv.FormatInt(r.length, 10))
		s.left = r.length
	default:
		header.Del("Content-Length")
	}
	if s.front.ending(s.conn) {
		header.Set("Connection", "close") // net/http makes it a GOAWAY
	}
	s.headSent = true
	s.w.WriteHeader(status)
	if string(x.req.method) == http.MethodHead || !bodyAllowed(status) {
		return true
	}
	if !r.stream {
		s.watch()
		_, err := s.w.Write(r.body)
		s.stall.unset()
		return err == nil
	}
	return s.sendStream(x)
}

// sendStream passes the body on as the core streams it.
func (s *h2stream) sendStream(x *exchange) bool {
	if s.Flush() != nil {
		return false
	}
	if _, err := s.front.core.stream(x, s); err != nil {
		if err != errClientWrite {
			_ = s.Flush()
		}
		return false
	}
	if s.left > 0 {
		return false
	}
	s.front.core.trailers(x, func(name, value []byte) {
		if isTrailerField(name) && fieldValueOK(value) {
			s.w.Header().Add(http.TrailerPrefix+string(name), string(value))
		}
	})
	return true
}

// copyHead copies the answer's fields; what belongs to one hop of HTTP/1.1 has
// no place in HTTP/2.
func (s *h2stream) copyHead(h *fasthttp.ResponseHeader) {
	h.SetNoDefaultContentType(true) // Reset forgets it
	header := s.w.Header()
	for name, value := range h.All() {
		switch string(name) {
		case "Transfer-Encoding", "Connection", "Keep-Alive", "Proxy-Connection", "Upgrade", "Trailer":
			continue
		}
		if isToken(name) && fieldValueOK(value) {
			header.Add(string(name), string(value))
		}
	}
	if _, ok := header["Content-Type"]; !ok {
		header["Content-Type"] = nil // no guessing
	}
}

// Write implements flushWriter.
func (s *h2stream) Write(p []byte) (int, error) {
	if s.left >= 0 {
		if int64(len(p)) > s.left {
			return 0, errOverrun
		}
		s.left -= int64(len(p))
	}
	s.watch()
	n, err := s.w.Write(p)
	s.stall.unset()
	if err != nil {
		return n, errClientWrite
	}
	return n, nil
}

// Flush implements flushWriter.
func (s *h2stream) Flush() error {
	s.watch()
	err := s.control.Flush()
	s.stall.unset()
	if err != nil {
		return errClientWrite
	}
	return nil
}

// watch bounds the write that follows. WriteByteTimeout does not: it bounds
// what the connection takes, not what the client's flow control holds back.
func (s *h2stream) watch() {
	s.stall.set(s.front.timeouts.WriteStall, s.giveUp)
}

func (s *h2stream) giveUp() { _ = s.control.SetWriteDeadline(longAgo) }

// inform passes an informational answer on (informer).
func (s *h2stream) inform(h *fasthttp.ResponseHeader) {
	s.copyHead(h)
	s.w.WriteHeader(h.StatusCode())
	clear(s.w.Header())
}

// bodyAllowed says whether answers with this status have a body.
func bodyAllowed(status int) bool {
	return status >= 200 && status != fasthttp.StatusNoContent && status != fasthttp.StatusNotModified
}
