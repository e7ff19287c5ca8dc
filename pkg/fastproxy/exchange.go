package fastproxy

import (
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// requestBody is what is left to read of a request's body, framing removed.
// It belongs to the goroutine of the exchange.
type requestBody interface {
	// Len is the declared length in bytes; -1 where it is not known before the
	// end (chunked, HTTP/2 without content-length); 0 where there is no body.
	Len() int64
	// Read returns io.EOF only at the body's true end; errClientGone where the
	// client left in the middle of it; errBadBody where its framing is broken;
	// errBodyTimeout where it was too slow.
	Read(p []byte) (int, error)
	// Whole returns the whole body where every byte of it has been received
	// already and none was Read: without blocking, without copying, valid for
	// the life of the exchange; the body then counts as read. nil otherwise.
	Whole() []byte
}

// request is the client's message in neutral form: the two front ends fill it,
// the core reads it. All slices live as long as the exchange.
type request struct {
	// header holds the fields as received, names canonical, without the ones
	// that frame the message (Content-Length, Transfer-Encoding), Expect and
	// Trailer, which the front has consumed. The core edits it in place on the
	// way upstream.
	header *fasthttp.RequestHeader
	method []byte
	// target is the raw origin-form target ("/a%2Fb?x=1", "*"), byte for byte
	// as received; path and query are its two parts.
	target, path, query []byte
	// matchPath is the canonical path that rules are matched against.
	matchPath []byte
	// authority is the host the client asked for, as received; host is the same
	// in lower case without port.
	authority, host []byte
	// remote is the peer's "ip:port".
	remote []byte
	// upgrade is the protocol asked for by Connection: upgrade; nil: none.
	upgrade []byte
	body    requestBody
	tls     bool
	http2   bool
	http10  bool
	grpc    bool
}

// response is the answer in neutral form: the core fills it, the front sends it.
type response struct {
	// header holds status and fields; the front decides the framing from body,
	// stream and length.
	header *fasthttp.ResponseHeader
	// body is the complete answer where stream is false.
	body []byte
	// stream: the body is read from the exchange (WriteTo) as it arrives;
	// length is its declared length, -1 unknown.
	stream bool
	length int64
	// close: the client's connection must not be used again.
	close bool
}

// clientSlot is where a client's leaving meets the exchange in flight. An
// HTTP/1.1 connection has one for its life, an HTTP/2 stream one of its own.
// gone never goes back to false.
//
// The rule that keeps a late event off a pooled connection: whoever takes the
// pointer out of inflight (Swap) owns the upstream connection. fire takes it to
// abort it; the exchange takes it back at its end and may pool the connection
// only if it got it.
type clientSlot struct {
	gone     atomic.Bool
	inflight atomic.Pointer[upstreamConn]
	waiting  atomic.Pointer[waiter]
	// conn is the connection that ends with its client's leaving where it has no
	// exchange in flight; nil for a stream of HTTP/2.
	conn *clientConn
}

// fire announces that the client has left. Any goroutine; idempotent.
func (s *clientSlot) fire() {
	s.gone.Store(true)
	if u := s.inflight.Swap(nil); u != nil {
		u.abort()
	}
	if w := s.waiting.Swap(nil); w != nil {
		w.wake()
	}
	if s.conn != nil {
		s.conn.end()
	}
}

// publish names the upstream connection to abort when the client leaves; false:
// it has left already and u is still the caller's.
func (s *clientSlot) publish(u *upstreamConn) bool {
	s.inflight.Store(u)
	return !s.gone.Load() || s.inflight.Swap(nil) == nil
}

// retract takes the connection back; false: fire took it, it is aborted and
// must be closed.
func (s *clientSlot) retract() bool {
	return s.inflight.Swap(nil) != nil
}

// exchange is one request and its answer, from match to record. The fronts take
// one from a pool for each request and put it back after finish.
type exchange struct {
	server *Server
	slot   *clientSlot
	// port is the listener port the request came in on (set by the front);
	// sniListener the Key of the listener that its TLS handshake chose, empty
	// without TLS (set by the front).
	port        uint16
	sniListener string

	req  request
	resp response
	leg  leg
	// tunnel: the answer is a 101; once its head is out, the front hands the
	// connection to runTunnel.
	tunnel bool
	// interim sends an informational response (103) to the client; nil where
	// the client takes none (HTTP/1.0). Set by the front.
	interim informer

	core
	scratch
}
