package fastproxy

import (
	"io"
	"sync/atomic"
	"time"
)

// h1body is the body of the request that an h1conn serves: requestBody by
// Content-Length or chunks. Trailer fields are checked and dropped.
type h1body struct {
	c *h1conn
	// length is the declared length, -1 for chunks; left is what is still to
	// come of it.
	length, left int64
	chunks       chunkDecoder
	// expect: 100 Continue is owed before the first wait for the body.
	expect bool
	// until bounds all reads, Unix nanoseconds; 0: each read has its time-out.
	until int64
	begun bool
	done  bool
	err   error // sticky
	// interrupted: nobody wants the rest.
	interrupted atomic.Bool
}

var continueLine = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// begin starts the body that the gate has found.
func (b *h1body) begin(g *gate) {
	b.chunks.reset()
	*b = h1body{c: b.c, chunks: b.chunks, length: g.bodyLen, left: max(g.bodyLen, 0), done: g.bodyLen == 0}
	// A client that has sent some does not wait (RFC 9110 10.1.1). So who reads
	// first says it, the exchange's goroutine: an upload beside the answer would
	// write into that.
	b.expect = g.expect && b.c.r == b.c.w
	if b.done {
		b.err = io.EOF
	}
}

func (b *h1body) Len() int64 { return b.length }

// arrived says whether every byte of the body has been received.
func (b *h1body) arrived() bool {
	return b.done || b.length > 0 && int64(b.c.w-b.c.r) >= b.length
}

// Whole implements requestBody for bodies with a length that came with the head.
func (b *h1body) Whole() []byte {
	c := b.c
	if b.begun || b.length <= 0 || !b.arrived() {
		return nil
	}
	end := c.r + int(b.length)
	whole := c.buf[c.r:end:end]
	c.r = end
	b.left, b.begun, b.done, b.err = 0, true, true, io.EOF
	return whole
}

// Read implements requestBody.
func (b *h1body) Read(p []byte) (int, error) {
	b.begun = true
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	var n int
	if b.length >= 0 {
		n, b.err = b.readSome(p[:min(int64(len(p)), b.left)])
		b.left -= int64(n)
	} else {
		n, b.err = b.readChunked(p)
	}
	if b.err == nil && b.length >= 0 && b.left == 0 {
		b.err = io.EOF
	}
	if b.err == io.EOF {
		b.done = true
	}
	if n > 0 {
		return n, nil
	}
	return 0, b.err
}

// directBodyRead is from which size a read bypasses the connection's buffer.
const directBodyRead = 2 << 10

// readSome reads once: from the buffer, else from the socket.
func (b *h1body) readSome(p []byte) (int, error) {
	c := b.c
	if c.r == c.w {
		if len(p) >= directBodyRead {
			return b.readDirect(p)
		}
		if err := b.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.buf[c.r:c.w])
	c.r += n
	return n, nil
}

// readDirect reads from the socket into p.
func (b *h1body) readDirect(p []byte) (int, error) {
	for {
		if err := b.await(); err != nil {
			return 0, err
		}
		n, err := b.c.conn.Read(p)
		switch {
		case n > 0:
			return n, nil
		case !b.c.wokenLate(err):
			return 0, bodyError(err)
		}
	}
}

// fill reads more into the connection's buffer.
func (b *h1body) fill() error {
	c := b.c
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	for {
		if err := b.await(); err != nil {
			return err
		}
		switch err := c.fill(); {
		case err == nil:
			return nil
		case !c.wokenLate(err):
			return bodyError(err)
		}
	}
}

// await does what is due before waiting for the client: 100 Continue if it is
// owed, and the deadline.
func (b *h1body) await() error {
	if b.expect {
		b.expect = false
		if err := b.c.write(continueLine); err != nil {
			return errClientGone
		}
		b.c.answered = false
	}
	if b.until != 0 {
		b.c.armReadBy(b.until)
	} else {
		b.c.armRead(unixNow(), b.c.front.timeouts.Body)
	}
	if b.interrupted.Load() { // behind the arming, so that neither is missed
		return errBodyTimeout
	}
	return nil
}

// interrupt implements interruptibleBody: it ends a read that another goroutine
// waits in.
func (b *h1body) interrupt() {
	b.interrupted.Store(true)
	_ = b.c.conn.SetReadDeadline(longAgo)
}

// bodyError maps what a read of the client's connection says.
func bodyError(err error) error {
	if pastDeadline(err) {
		return errBodyTimeout
	}
	return errClientGone
}

// readChunked reads content of the current chunk, or finds the next one first.
func (b *h1body) readChunked(p []byte) (int, error) {
	for b.chunks.payload() == 0 {
		used, ok := b.chunks.framing(b.c.buffered())
		b.c.r += used
		switch {
		case !ok:
			return 0, errBadBody
		case b.chunks.done():
			return 0, io.EOF
		case b.chunks.payload() == 0:
			if err := b.fill(); err != nil {
				return 0, err
			}
		}
	}
	n, err := b.readSome(p[:min(int64(len(p)), b.chunks.payload())])
	b.chunks.taken(int64(n))
	return n, err
}

const (
	// drainBytes is how much of an unread body is read away so that the
	// connection can go on; drainTime is how long that may take.
	drainBytes = 256 << 10
	drainTime  = 5 * time.Second
)

// drainable says whether drain can succeed, as far as is known beforehand.
func (b *h1body) drainable() bool {
	return b.done || !b.interrupted.Load() && !b.expect && (b.err == nil || b.err == io.EOF) &&
		b.left <= drainBytes && b.chunks.payload() <= drainBytes
}

// drain reads away what is left of the body; false: the connection cannot be
// used again.
func (b *h1body) drain() bool {
	if b.done {
		return true
	}
	if !b.drainable() {
		return false
	}
	b.until = unixNow() + int64(drainTime)
	var away [4 << 10]byte
	for left := drainBytes; left > 0; {
		n, err := b.Read(away[:])
		if err != nil {
			return err == io.EOF
		}
		left -= n
	}
	return b.done
}
