package fastproxy

import (
	"errors"
	"strconv"
)

// h1stream writes the body of a streamed answer to an HTTP/1.x client: the
// flushWriter that the core streams into. What is written between two flushes
// leaves in one piece, as one chunk where the length is unknown.
type h1stream struct {
	c   *h1conn
	out *outBuffer
	// n is the end of the content in out, which begins at sizeRoom.
	n int
	// left is what a declared length still allows; chunked and until-close
	// answers have lengthChunked and lengthClose.
	left int64
	// tail is what ends a chunked body; visit appends a trailer field to it.
	tail  []byte
	visit func(name, value []byte)
}

const (
	// sizeRoom is kept free in front of content for a chunk-size line.
	sizeRoom = 8
	// tailRoom is kept free behind it for the chunk's end and the last chunk.
	tailRoom = 8
)

// errOverrun: the core wrote more than the length it declared.
var errOverrun = errors.New("fastproxy: answer is longer than its declared length")

// begin starts a body of a length (or lengthChunked, lengthClose).
func (s *h1stream) begin(c *h1conn, length int64) {
	s.c, s.n, s.left = c, sizeRoom, length
	s.out = outBuffers.Get().(*outBuffer)
}

// release gives the memory back; nothing is written any more.
func (s *h1stream) release() {
	if s.out != nil {
		outBuffers.Put(s.out)
		s.out, s.c, s.tail = nil, nil, nil
	}
}

// Write implements io.Writer; p is not kept.
func (s *h1stream) Write(p []byte) (int, error) {
	if s.left >= 0 {
		if int64(len(p)) > s.left {
			return 0, errOverrun
		}
		s.left -= int64(len(p))
	}
	written := 0
	for {
		n := copy(s.out.b[s.n:outBufferSize-tailRoom], p[written:])
		s.n += n
		if written += n; written == len(p) {
			return written, nil
		}
		if err := s.Flush(); err != nil {
			return written, err
		}
	}
}

// Flush implements flushWriter.
func (s *h1stream) Flush() error {
	if s.n == sizeRoom {
		return nil
	}
	start, end := s.frame()
	s.n = sizeRoom
	return s.c.write(s.out.b[start:end])
}

// frame puts the framing around the content in out; it returns where the piece
// to be written begins and ends.
func (s *h1stream) frame() (start, end int) {
	if s.left != lengthChunked || s.n == sizeRoom {
		return sizeRoom, s.n
	}
	var line [sizeRoom]byte
	size := strconv.AppendInt(line[:0], int64(s.n-sizeRoom), 16)
	size = append(size, '\r', '\n')
	start = sizeRoom - len(size)
	copy(s.out.b[start:], size)
	return start, s.n + copy(s.out.b[s.n:], "\r\n")
}

// end completes the body: what is not flushed yet, and the last chunk with the
// trailer fields of x, if it has any.
func (s *h1stream) end(x *exchange) error {
	if s.left > 0 {
		return errUpstreamCut
	}
	start, end := s.frame()
	if s.left != lengthChunked {
		if start == end {
			return nil
		}
		return s.c.write(s.out.b[start:end])
	}
	s.tail = append(s.out.b[start:end], "0\r\n"...)
	if s.visit == nil {
		s.visit = s.trailer // once a connection: a method value allocates
	}
	s.c.front.core.trailers(x, s.visit)
	return s.c.write(append(s.tail, '\r', '\n'))
}

// trailer appends a trailer field.
func (s *h1stream) trailer(name, value []byte) {
	if isTrailerField(name) && fieldValueOK(value) {
		s.tail = append(append(append(append(s.tail, name...), ": "...), value...), "\r\n"...)
	}
}

// isTrailerField says whether a field may come after the body: none that
// frames, routes, authenticates or describes the content (RFC 9110 6.5.1).
func isTrailerField(name []byte) bool {
	if !isToken(name) {
		return false
	}
	for _, bad := range badTrailers {
		if equalFold(name, bad) {
			return false
		}
	}
	return true
}

var badTrailers = [...]string{
	"content-length", "transfer-encoding", "trailer", "connection", "keep-alive", "upgrade", "te",
	"host", "content-type", "content-encoding", "content-range", "cache-control", "expires", "age",
	"vary", "date", "location", "retry-after", "set-cookie", "www-authenticate", "authorization",
	"proxy-authenticate", "proxy-authorization", "expect", "max-forwards", "range",
}
