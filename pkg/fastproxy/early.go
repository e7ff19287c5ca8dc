package fastproxy

import (
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// uploadPiece is how much of a streamed body is read at once.
	uploadPiece = 32 << 10
	// sizeLineRoom is the space in front of a piece for its chunk-size line.
	sizeLineRoom = 16
)

// interruptibleBody is a requestBody whose Read another goroutine can break
// off: interrupt makes a Read that runs, and every later one, return an error
// soon. It may be called more than once, at any time in the body's life, and
// leaves the body unfinished.
type interruptibleBody interface {
	requestBody
	interrupt()
}

// upload sends a request's body. What fits into the first write goes out with
// the head. The rest is sent by a goroutine of its own, so that a response that
// comes before the endpoint has read everything is seen at once: a final one
// of 300 or more ends the upload and is delivered, another one runs beside it.
// The body belongs to that goroutine until stop has returned.
type upload struct {
	first  []byte      // goes out with the head
	rest   []byte      // of a body that was passed whole
	stream requestBody // what follows first; nil: nothing
	length int64       // -1: in chunks
	buf    *[]byte     // pooled; holds first, then the pieces of stream
	whole  bool        // first is all of a stream
	// began is the stream that first was read from while nothing behind first
	// has been: a further try begins with the same first.
	began requestBody

	conn    *upstreamConn
	running bool // started and not yet stopped
	// firstByte, in nanoseconds, begins when the sending ends.
	firstByte int64
	finished  chan struct{}
	stopped   atomic.Bool
	last      atomic.Bool  // what is sent now ends the request
	doneAt    atomic.Int64 // when the sending ended, monotonic; 0: it has not

	// Written by the goroutine before finished.
	broken bool  // the request was not sent to its end
	err    error // why, where that is not the endpoint's doing
}

// prepare takes up the request's body; of a stream it reads what goes out with
// the head, all of a small one. The error is the stream's.
func (p *upload) prepare(body []byte, stream requestBody) error {
	p.rest, p.broken, p.err = nil, false, nil
	p.doneAt.Store(0)
	if stream != nil && p.began == stream {
		return nil
	}
	p.stream, p.whole, p.began = nil, false, nil
	if stream == nil || stream.Len() == 0 {
		// body may be what keptBody gave out: the buffer stays.
		p.first, p.length = body, int64(len(body))
		if len(body) > inlineBody {
			p.first, p.rest = body[:inlineBody], body[inlineBody:]
		}
		return nil
	}
	p.forget()
	p.buf = bodyBuffers.get(sizeLineRoom + inlineBody + len(lastChunk))
	p.stream, p.length = stream, stream.Len()
	if err := p.readFirst(); err != nil {
		return err
	}
	p.began = stream
	return nil
}

// readFirst reads a body known to be small to its end, of another one what
// comes first.
func (p *upload) readFirst() error {
	room := (*p.buf)[sizeLineRoom : sizeLineRoom+inlineBody]
	n := 0
	for {
		m, err := p.stream.Read(room[n:])
		n += m
		p.first = room[:n]
		switch {
		case err == io.EOF && p.length > int64(n):
			return errClientGone
		case err == io.EOF || p.length == int64(n):
			p.length = int64(n)
			p.whole, p.stream = true, nil
			return nil
		case err != nil:
			return err
		case n > 0 && (p.length < 0 || p.length > inlineBody):
			return nil
		}
	}
}

// forget gives the buffer back.
func (p *upload) forget() {
	if p.buf != nil {
		bodyBuffers.put(p.buf)
		p.buf = nil
	}
	p.first, p.rest, p.stream, p.whole, p.began = nil, nil, nil, false, nil
}

// frame writes the body's framing into h.
func (p *upload) frame(h *fasthttp.RequestHeader) {
	h.SetProtocol("HTTP/1.1")
	if p.length != 0 {
		h.SetContentLength(int(p.length))
		return
	}
	switch string(h.Method()) {
	case fasthttp.MethodPost, fasthttp.MethodPut, fasthttp.MethodPatch:
		h.SetContentLength(0)
	}
}

// appendFirst appends to a head what goes out with it.
func (p *upload) appendFirst(out []byte) []byte {
	if p.length >= 0 {
		return append(out, p.first...)
	}
	out = strconv.AppendInt(out, int64(len(p.first)), 16)
	out = append(out, '\r', '\n')
	out = append(out, p.first...)
	return append(out, '\r', '\n')
}

// allInFirst tells whether nothing follows first.
func (p *upload) allInFirst() bool { return p.rest == nil && p.stream == nil }

// repeatable tells whether the body can be sent once more.
func (p *upload) repeatable() bool { return p.stream == nil }

// start sends the rest on conn beside the reading, which has no time to the
// first byte until the sending has ended and has set it.
func (p *upload) start(conn *upstreamConn, firstByte int64) {
	if p.finished == nil {
		p.finished = make(chan struct{}, 1)
	}
	p.conn, p.firstByte, p.running = conn, firstByte, true
	p.began = nil
	p.stopped.Store(false)
	p.last.Store(false)
	conn.up, conn.until = p, conn.deadline
	go p.run()
}

// over tells the reading side that the sending has ended.
func (p *upload) over() bool { return p.doneAt.Load() != 0 }

// firstByteUntil is when the response must have begun, once over.
func (p *upload) firstByteUntil() int64 {
	return earlier(p.conn.deadline, after(p.doneAt.Load(), p.firstByte))
}

// stop ends the upload and returns when its goroutine has, with the failure
// that was not the endpoint's: the client's, or a time-out. It interrupts the
// goroutine where that still sends; the connection is unusable then.
func (p *upload) stop() error {
	if !p.running || p.settle() {
		return p.err
	}
	p.stopped.Store(true)
	p.conn.tcp.SetWriteDeadline(longAgo)
	if b, ok := p.stream.(interruptibleBody); ok {
		b.interrupt()
	}
	p.join()
	p.broken = true
	return p.err
}

// settle ends an upload that has nothing more to send, or is about to; false:
// it still runs.
func (p *upload) settle() bool {
	if p.running && (p.over() || p.endsSoon()) {
		p.join()
	}
	return !p.running
}

// join waits for the goroutine.
func (p *upload) join() {
	<-p.finished
	p.running = false
	p.conn.up = nil
	p.conn.armed = 0 // run may have set the deadline
}

// endsSoon waits a moment for the sending to end where nothing but its end is
// due: the response may overtake the return of the last write.
func (p *upload) endsSoon() bool {
	for i := 0; p.last.Load() && i < 20; i++ {
		time.Sleep(time.Millisecond / 2)
		if p.over() {
			return true
		}
	}
	return false
}

// run is the upload's goroutine.
func (p *upload) run() {
	defer func() {
		if r := recover(); r != nil {
			p.fail(errBadBody)
		}
		p.doneAt.Store(monotonic())
		if until := p.firstByteUntil(); until != 0 {
			p.conn.tcp.SetReadDeadline(atMonotonic(until))
		}
		p.finished <- struct{}{}
	}()
	if p.rest != nil {
		p.last.Store(true)
		p.wrote(p.conn.writeAll(p.rest, &p.stopped))
		return
	}
	p.sendStream()
}

// sendStream sends the stream to its end.
func (p *upload) sendStream() {
	left := p.length - int64(len(p.first))
	chunked := p.length < 0
	for {
		if p.stopped.Load() {
			p.broken = true
			return
		}
		room := (*p.buf)[sizeLineRoom : sizeLineRoom+uploadPiece]
		n, err := p.stream.Read(room)
		left -= int64(n)
		if err == nil && left == 0 && !chunked {
			err = io.EOF
		}
		if err == io.EOF && left > 0 {
			err = errClientGone
		}
		if err != nil && err != io.EOF {
			p.fail(err)
			return
		}
		piece := room[:n]
		if chunked {
			piece = chunkPiece(*p.buf, n, err == io.EOF)
		}
		p.last.Store(err == io.EOF)
		if !p.wrote(p.conn.writeAll(piece, &p.stopped)) || err == io.EOF {
			return
		}
	}
}

const lastChunk = "\r\n0\r\n\r\n"

// chunkPiece puts the n bytes at sizeLineRoom in buf into a chunk, and the last
// chunk behind it where the body ends.
func chunkPiece(buf []byte, n int, last bool) []byte {
	buf = buf[:cap(buf)]
	end := sizeLineRoom + n
	tail := ""
	if n > 0 {
		tail = "\r\n"
	}
	if last {
		tail = lastChunk[2-len(tail):]
	}
	end += copy(buf[end:], tail)
	if n == 0 {
		return buf[sizeLineRoom:end]
	}
	var line [sizeLineRoom]byte
	size := append(strconv.AppendInt(line[:0], int64(n), 16), '\r', '\n')
	begin := sizeLineRoom - len(size)
	copy(buf[begin:], size)
	return buf[begin:end]
}

// wrote takes note of how a write ended; false: sending is over.
func (p *upload) wrote(err error) bool {
	switch {
	case err == nil:
		return true
	case err == errWriteTimeout && !p.stopped.Load():
		class := errFirstByteTimeout
		if d := p.conn.deadline; d != 0 && monotonic() >= d {
			class = errDeadline
		}
		p.fail(class)
	default:
		// The endpoint closed, perhaps with a response: the reading will tell.
		p.broken = true
	}
	return false
}

// fail ends the exchange upstream for a reason that is not the endpoint's, and
// wakes the reading. An upload that was stopped has no such reason.
func (p *upload) fail(err error) {
	p.broken = true
	if p.stopped.Load() {
		return
	}
	p.err = err
	p.conn.tcp.Close()
}
