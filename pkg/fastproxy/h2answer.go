package fastproxy

import (
	"io"
	"net/http"
	"strconv"

	"github.com/valyala/fasthttp"
)

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
	if s.front.ending(s.conn.clientConn) {
		header.Set("Connection", "close") // net/http makes it a GOAWAY
	}
	s.headSent = true
	s.w.WriteHeader(status)
	if string(x.req.method) == http.MethodHead || !bodyAllowed(status) {
		return true
	}
	if !r.stream {
		_, err := s.Write(r.body)
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
