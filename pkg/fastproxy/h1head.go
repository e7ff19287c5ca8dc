package fastproxy

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// headFraming is how an HTTP/1.x answer is framed and ended.
type headFraming struct {
	length  int64 // Content-Length; see the constants below for others
	close   bool  // Connection: close
	http10  bool  // the client speaks HTTP/1.0
	upgrade bool  // 101: Connection and Upgrade pass
}

const (
	lengthChunked = -1 // Transfer-Encoding: chunked
	lengthClose   = -2 // until the connection ends (HTTP/1.0)
	lengthNone    = -3 // no body and no length
	lengthKept    = -4 // no body; the length that the engine's head names, if any
)

// appendHead appends the head of an HTTP/1.1 answer: h without the fields that
// frame it, then Date where h has none, then framing and connection.
// A field that could split the head is left out.
func appendHead(dst []byte, h *fasthttp.ResponseHeader, f headFraming) []byte {
	h.SetNoDefaultContentType(true) // Reset forgets it
	dst = appendStatusLine(dst, h.StatusCode(), h.StatusMessage())
	dated := false
	for name, value := range h.All() {
		switch string(name) {
		case "Content-Length":
			if f.length != lengthKept {
				continue
			}
		case "Transfer-Encoding", "Trailer", "Keep-Alive", "Proxy-Connection":
			continue
		case "Connection":
			if !f.upgrade {
				continue
			}
		case "Date":
			dated = true
		}
		if !isToken(name) || !fieldValueOK(value) {
			continue
		}
		dst = append(dst, name...)
		dst = append(dst, ": "...)
		dst = append(dst, value...)
		dst = append(dst, "\r\n"...)
	}
	if !dated {
		dst = append(dst, dateLine()...)
	}
	switch {
	case f.length >= 0:
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, f.length, 10)
		dst = append(dst, "\r\n"...)
	case f.length == lengthChunked:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	switch {
	case f.upgrade:
	case f.close:
		dst = append(dst, "Connection: close\r\n"...)
	case f.http10:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// appendInterim appends an informational answer's head.
func appendInterim(dst []byte, h *fasthttp.ResponseHeader) []byte {
	h.SetNoDefaultContentType(true)
	dst = appendStatusLine(dst, h.StatusCode(), h.StatusMessage())
	for name, value := range h.All() {
		switch string(name) {
		case "Content-Length", "Transfer-Encoding", "Connection":
			continue
		}
		if isToken(name) && fieldValueOK(value) {
			dst = append(append(append(append(dst, name...), ": "...), value...), "\r\n"...)
		}
	}
	return append(dst, "\r\n"...)
}

// appendStatusLine appends "HTTP/1.1 200 OK\r\n"; an empty message means the
// usual one.
func appendStatusLine(dst []byte, status int, message []byte) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	if len(message) == 0 || !fieldValueOK(message) {
		dst = append(dst, fasthttp.StatusMessage(status)...)
	} else {
		dst = append(dst, message...)
	}
	return append(dst, "\r\n"...)
}

// appendRefusal appends the whole answer to a refused message. The connection
// ends with it.
func appendRefusal(dst []byte, r *refusal, headOnly bool) []byte {
	dst = appendStatusLine(dst, r.status, nil)
	dst = append(dst, dateLine()...)
	dst = append(dst, "Content-Type: text/plain; charset=utf-8\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(r.text)+1), 10)
	dst = append(dst, "\r\n"...)
	switch r.status {
	case fasthttp.StatusServiceUnavailable:
		dst = append(dst, "Retry-After: 1\r\n"...)
	case fasthttp.StatusMethodNotAllowed:
		dst = append(dst, "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"...)
	}
	dst = append(dst, "Connection: close\r\n\r\n"...)
	if headOnly {
		return dst
	}
	return append(append(dst, r.text...), '\n')
}

// datedLine is a Date field line and the second it is for.
type datedLine struct {
	second int64
	line   []byte
}

var lastDate atomic.Pointer[datedLine]

// dateLine is the Date field line of now, with its CRLF. It is built once a
// second, for everybody.
func dateLine() []byte {
	now := time.Now()
	if d := lastDate.Load(); d != nil && d.second == now.Unix() {
		return d.line
	}
	line := append([]byte("Date: "), now.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")...)
	d := &datedLine{second: now.Unix(), line: append(line, "\r\n"...)}
	lastDate.Store(d)
	return d.line
}
