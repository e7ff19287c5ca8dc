package fastproxy

import (
	"bytes"
	"io"
)

// bulkRead is how much of a large body is read at once, past the
// connection's own buffer.
const bulkRead = 64 << 10

// complete appends the response's body to dst where all of it has been received
// and no trailers came with it, and gives the connection back at once; false:
// it is still to be streamed.
func (l *leg) complete(dst []byte) ([]byte, bool) {
	if l.upload.running {
		return dst, false
	}
	br := l.conn.br
	switch l.head.framing {
	case bodyNone:
	case bodyLength:
		if l.remaining > int64(br.Buffered()) {
			return dst, false
		}
		b, _ := br.Peek(int(l.remaining))
		dst = append(dst, b...)
		br.Discard(len(b))
		l.remaining = 0
	case bodyChunked:
		var ok bool
		if dst, ok = l.completeChunks(dst); !ok {
			return dst, false
		}
	default:
		return dst, false
	}
	l.ended = true
	l.close(true)
	return dst, true
}

var wholeChunksEnd = []byte("0\r\n\r\n")

// completeChunks is complete for a chunked body. Nothing is consumed unless it
// succeeds.
func (l *leg) completeChunks(dst []byte) ([]byte, bool) {
	br := l.conn.br
	b, _ := br.Peek(br.Buffered())
	if !bytes.HasSuffix(b, wholeChunksEnd) {
		return dst, false
	}
	begin := len(dst)
	for used := 0; used < len(b); {
		piece, n, ok := l.chunks.next(b[used:])
		dst = append(dst, piece...)
		used += n
		if !ok || l.chunks.done() && (used < len(b) || len(l.chunks.trailer) > 0) {
			break
		}
	}
	if l.chunks.done() && len(l.chunks.trailer) == 0 {
		br.Discard(len(b))
		return dst, true
	}
	l.chunks.reset()
	return dst[:begin], false
}

// WriteTo streams the response's body to w: what one read of the endpoint
// brought is one Write and one Flush, but for the last piece, whose Flush is
// the caller's. All that came before a failure has been passed on when it
// returns. Errors: errUpstreamCut, errIdleTimeout, errDeadline, errBadResponse,
// errClientGone, errClientWrite, and those of the request's body where that
// still ran.
func (l *leg) WriteTo(w flushWriter) (n int64, err error) {
	if l.ended {
		return 0, nil
	}
	switch {
	case l.head.framing == bodyChunked:
		n, err = l.writeChunks(w)
	case l.head.framing == bodyLength && l.remaining <= upstreamBuffer:
		n, err = l.writeBuffered(w)
	default:
		n, err = l.writeDirect(w)
	}
	l.ended = err == nil
	return n, err
}

// await reads until something is buffered and returns all of it.
func (l *leg) await() ([]byte, error) {
	br := l.conn.br
	if br.Buffered() == 0 {
		l.untilIdle()
		if _, err := br.Peek(1); err != nil {
			return nil, err
		}
	}
	return br.Peek(br.Buffered())
}

// untilIdle gives the next read its time. While the upload still runs, the
// endpoint may well be waiting for it.
func (l *leg) untilIdle() {
	u := l.conn
	u.until = l.deadline
	if u.up == nil && l.times.Idle > 0 {
		u.until = earlier(l.deadline, after(monotonic(), int64(l.times.Idle)))
	}
}

// writeChunks streams a chunked body. The pieces of one read are moved together
// within the buffer.
func (l *leg) writeChunks(w flushWriter) (written int64, err error) {
	br := l.conn.br
	for !l.chunks.done() {
		b, err := l.await()
		if err != nil {
			return written, l.bodyError(err)
		}
		var out []byte
		used, ok := 0, true
		for used < len(b) && ok && !l.chunks.done() {
			var piece []byte
			var n int
			piece, n, ok = l.chunks.next(b[used:])
			used += n
			if out == nil {
				out = piece
			} else {
				out = append(out, piece...) // over bytes that are used
			}
		}
		n, werr := passOn(w, out, l.chunks.done())
		written += n
		br.Discard(used)
		switch {
		case !ok:
			return written, errBadResponse
		case werr != nil:
			return written, werr
		}
	}
	return written, nil
}

// writeBuffered streams what is left of a short body of known length.
func (l *leg) writeBuffered(w flushWriter) (written int64, err error) {
	for l.remaining > 0 {
		b, err := l.await()
		if err != nil {
			return written, l.bodyError(err)
		}
		b = b[:min(int64(len(b)), l.remaining)]
		l.remaining -= int64(len(b))
		n, err := passOn(w, b, l.remaining == 0)
		written += n
		if err != nil {
			return written, err
		}
		l.conn.br.Discard(len(b))
	}
	return written, nil
}

// writeDirect streams a long body of known length, or one that the end of the
// connection ends, past the connection's buffer once that is empty.
func (l *leg) writeDirect(w flushWriter) (written int64, err error) {
	br := l.conn.br
	buf := bodyBuffers.get(bulkRead)
	defer bodyBuffers.put(buf)
	untilClose := l.head.framing == bodyUntilClose
	for untilClose || l.remaining > 0 {
		p := (*buf)[:bulkRead]
		if !untilClose {
			p = p[:min(int64(len(p)), l.remaining)]
		}
		var n int
		if buffered := br.Buffered(); buffered > 0 {
			n, err = br.Read(p[:min(len(p), buffered)])
		} else {
			l.untilIdle()
			n, err = l.conn.Read(p)
		}
		if err == io.EOF && untilClose {
			return written, nil
		}
		if err != nil {
			return written, l.bodyError(err)
		}
		l.remaining -= int64(n)
		m, err := passOn(w, p[:n], !untilClose && l.remaining == 0)
		written += m
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// passOn writes b to w, and flushes it unless it is the last piece.
func passOn(w flushWriter, b []byte, last bool) (int64, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := w.Write(b)
	if err == nil && !last {
		err = w.Flush()
	}
	if err != nil {
		return int64(n), errClientWrite
	}
	return int64(n), nil
}

// bodyError turns the error that ended a body into what the core knows.
func (l *leg) bodyError(err error) error {
	failed := l.upload.stop()
	switch {
	case failed != nil:
		return failed
	case err == errClientGone || l.conn.aborted.Load():
		return errClientGone
	case err == errReadTimeout:
		return l.timeoutClass(errIdleTimeout)
	}
	return errUpstreamCut
}

// trailer calls f for each trailer of the body that WriteTo has ended; the
// slices are valid during the call.
func (l *leg) trailer(f func(name, value []byte)) {
	if l.head.framing == bodyChunked && l.chunks.done() {
		l.chunks.trailers(f)
	}
}
