package fastproxy

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
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
	// http2Exchange is how long a request may take if nothing else ends it.
	http2Exchange = 30 * 24 * time.Hour
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
		// For what net/http answers without us, or has not given to us.
		WriteTimeout: f.timeouts.WriteStall,
		ErrorLog:     log.New(io.Discard, "", 0), // clients' mistakes
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
			return context.WithValue(ctx, ownerKey{}, &h2conn{clientConn: handed.owner(conn)})
		},
		ConnState: func(conn net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				handed.forget(conn)
			}
		},
	}, handed
}

// ownerKey is the context key of an HTTP/2 connection's *h2conn.
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
	conn    *h2conn
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
	begun time.Time
}

// serveHTTP2 is one request over HTTP/2, from its fields to its answer.
func (f *front) serveHTTP2(w http.ResponseWriter, r *http.Request) {
	c, _ := r.Context().Value(ownerKey{}).(*h2conn)
	if c == nil || c.clientConn == nil || r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // or the client has reset it already
	}
	s := &h2stream{front: f, conn: c, w: w, control: http.NewResponseController(w), begun: time.Now()}
	c.streams.Add(1)
	_ = s.control.SetWriteDeadline(s.begun.Add(http2Exchange))
	method := []byte(r.Method)
	if refused := s.check(method, r); refused != nil {
		f.counters.refused.add(refused.reason)
		s.refuse(refused)
	} else if !s.exchange(r, method) {
		panic(http.ErrAbortHandler) // RST_STREAM: the answer is incomplete
	}
	// net/http sends the rest of the answer when this has returned. The deadline
	// ends the stream where the client does not let it.
	_ = s.control.SetWriteDeadline(time.Now().Add(f.timeouts.WriteStall))
}

// exchange serves a request that was let through; false: the stream has to be
// reset.
func (s *h2stream) exchange(r *http.Request, method []byte) bool {
	s.fillHeader(method, r)
	s.body.r, s.body.length, s.body.stream, s.body.grpc = r.Body, r.ContentLength, s, s.isGRPC()
	// The client resets the stream, or its connection ends.
	stop := context.AfterFunc(r.Context(), s.slot.fire)
	x := s.front.core.acquire()
	s.fillRequest(x, method)
	ok := s.run(x)
	stop()
	if r.Context().Err() != nil {
		s.conn.noteReset(time.Since(s.begun))
	}
	return ok
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
	case countFields(r.Header) > maxFields:
		return &refuseFieldCount
	case !lengthOK(r.Header["Content-Length"], r.ContentLength):
		return &refuseLength
	case len(r.Header["Content-Type"]) > 1:
		return &refuseTypes
	}
	// RFC 9113 8.3.1: Host must not name another authority.
	for _, host := range r.Header["Host"] {
		if !strings.EqualFold(host, r.Host) {
			return &refuseTwoHosts
		}
	}
	return s.target.parse(method, []byte(r.RequestURI), []byte(r.Host), &s.scratch)
}

// lengthOK says whether declared is at most one length, and that one the body's
// length as net/http has it. It takes a malformed one for none, and of a request
// that ends with its fields it does not look.
func lengthOK(declared []string, length int64) bool {
	return len(declared) == 0 || len(declared) == 1 && length >= 0 && parseLength([]byte(declared[0])) == length
}

// countFields counts the fields of h.
func countFields(h http.Header) (n int) {
	for _, values := range h {
		n += len(values)
	}
	return n
}

var refuseTwoHosts = refusal{400, "host", "the Host field differs from :authority: send :authority alone"}

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
			receiveRequestField(h, []byte(name), []byte(v))
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
