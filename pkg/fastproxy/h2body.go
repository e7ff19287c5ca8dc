package fastproxy

import (
	"io"
	"strings"
)

// h2body is the body of an HTTP/2 request (requestBody).
type h2body struct {
	r      io.Reader
	length int64
	stream *h2stream
	// silence ends a wait that takes too long, but for gRPC, whose streams may
	// be silent for ever.
	silence h2alarm
	grpc    bool
	err     error // sticky
}

func (b *h2body) Len() int64 { return b.length }

// Whole implements requestBody; what net/http holds cannot be borrowed.
func (b *h2body) Whole() []byte { return nil }

// Read implements requestBody.
func (b *h2body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if !b.grpc {
		b.silence.set(b.stream.front.timeouts.Body, b.interrupt)
	}
	n, err := b.r.Read(p)
	b.silence.unset()
	switch {
	case err == nil:
	case err == io.EOF:
		b.err = io.EOF
	case pastDeadline(err):
		b.err = errBodyTimeout
	case strings.Contains(err.Error(), "declared a Content-Length"):
		b.err = errBadBody // shorter than declared, which net/http has only words for
	default:
		b.err = errClientGone
	}
	if n > 0 {
		return n, nil
	}
	return 0, b.err
}

// interrupt implements interruptibleBody.
func (b *h2body) interrupt() { _ = b.stream.control.SetReadDeadline(longAgo) }
