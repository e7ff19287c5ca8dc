package fastproxy

import (
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// staleWindow is how long after the last byte sent a reused connection may
	// fail and still count as closed by the endpoint before it saw the request.
	staleWindow = int64(100 * time.Millisecond)
	// inlineBody is how much of a body is sent in one write with the head: an
	// endpoint's receive window takes it whether or not the endpoint reads. The
	// rest of a larger body is sent beside the reading.
	inlineBody = 48 << 10
)

// informer is told of interim responses (1xx other than 100 and 101) while the
// final one is awaited. h is valid during the call.
type informer interface {
	inform(h *fasthttp.ResponseHeader)
}

// flushWriter is where a streamed body goes.
type flushWriter interface {
	io.Writer
	Flush() error
}

// legTimes are the time-outs of one try; 0 is no bound.
type legTimes struct {
	Connect   time.Duration // to a connection; 0: the pool's
	FirstByte time.Duration // from the last byte sent to the end of the response's head
	Idle      time.Duration // between two reads of the body, two writes of the request
	Deadline  int64         // end of the whole try, Unix nanoseconds
}

// leg is one try of one exchange at one endpoint: open, roundTrip, then
// complete or WriteTo, at last close. It is a value inside the exchange and is
// used again; in the steady state it allocates nothing. It belongs to the
// goroutine of the exchange; other goroutines reach its connection through the
// clientSlot only.
type leg struct {
	pool     *pool
	slot     *clientSlot
	conn     *upstreamConn
	times    legTimes
	deadline int64 // times.Deadline on the monotonic clock

	head      responseHead
	remaining int64 // what is left of a body of known length
	chunks    chunkDecoder
	ended     bool  // the response's body was read to its end
	stale     bool  // the last try ended with errStale
	sent      int64 // when the last byte known to be sent was, monotonic
	upload    upload
}

// open takes a connection of p that is kept, or makes one (always for fresh,
// which tunnels need, and after errStale: others that are kept may be stale
// too), and binds it to the client's leaving. Errors: those that connectFailed
// names, errDeadline, errClientGone. t is copied.
func (l *leg) open(p *pool, slot *clientSlot, t *legTimes, fresh bool) error {
	l.pool, l.slot, l.times = p, slot, *t
	l.deadline = 0
	if t.Deadline != 0 {
		l.deadline = max(t.Deadline-startedUnix, 1)
	}
	fresh = fresh || l.stale
	l.stale = false
	return l.acquire(fresh)
}

func (l *leg) acquire(fresh bool) error {
	if l.slot.gone.Load() {
		return errClientGone
	}
	if !fresh {
		if u := l.pool.take(monotonic()); u != nil {
			if !l.slot.publish(u) {
				l.pool.put(u, u.idleSince)
				return errClientGone
			}
			l.conn = u
			l.pool.reuses.Add(1)
			return nil
		}
	}
	timeout := int64(l.times.Connect)
	if timeout <= 0 {
		timeout = int64(l.pool.options.ConnectTimeout)
	}
	return l.connect(timeout)
}

// replace gives up a connection on which nothing was sent for another one.
func (l *leg) replace() error {
	u := l.conn
	l.conn = nil
	owned := l.slot.retract()
	u.closeIdle()
	l.pool.release()
	if !owned {
		return errClientGone
	}
	return l.acquire(false)
}

// roundTrip sends the request and reads the response's head into resp. h goes
// out as it stands but for protocol and framing: body is sent with its length
// where stream is nil; else stream is, with its length where that is known and
// in chunks where not. Interim responses go to x, which may be nil.
//
// On error the caller closes the leg and may try again after errStale and after
// what connectFailed names; where a stream was read by then, keptBody has it.
// Further errors: errNoResponse, errFirstByteTimeout, errDeadline,
// errClientGone, errBadResponse, and whatever stream.Read returned. A
// connection that turns out unusable before anything was sent is replaced
// without a word.
func (l *leg) roundTrip(h *fasthttp.RequestHeader, body []byte, stream requestBody, resp *fasthttp.ResponseHeader, x informer) error {
	l.ended, l.remaining = false, 0
	l.head = responseHead{fields: resp, toHead: h.IsHead(), asked: h.Peek(fasthttp.HeaderUpgrade)}
	if err := l.upload.prepare(body, stream); err != nil {
		return err
	}
	l.upload.frame(h)
	if len(h.Host()) == 0 { // an HTTP/1.0 client need not name one, to an endpoint we must
		h.SetHost(l.pool.address)
	}
	for {
		err := l.sendAndRead(h, resp, x)
		if err == nil {
			l.begin()
			return nil
		}
		if err != errUnsent {
			return l.classify(err)
		}
		if err = l.replace(); err != nil {
			return err
		}
	}
}

// sendAndRead sends the request and reads the final response's head.
func (l *leg) sendAndRead(h *fasthttp.RequestHeader, resp *fasthttp.ResponseHeader, x informer) error {
	u := l.conn
	u.stall = int64(earlierTime(l.times.Idle, l.times.FirstByte))
	u.deadline = l.deadline
	out := l.upload.appendFirst(h.AppendBytes(u.buffer[:0]))
	u.buffer = out
	l.sent = monotonic()
	u.until = earlier(l.deadline, after(l.sent, int64(l.times.FirstByte)))
	u.gotByte = false
	if l.upload.allInFirst() {
		u.out = out
		return l.readFinalHead(resp, x)
	}
	if u.reused && !u.usable() {
		return errUnsent
	}
	switch err := u.writeAll(out, nil); err {
	case nil:
		l.upload.start(u, int64(l.times.FirstByte))
	case errWriteTimeout:
		return err
	default:
		l.upload.broken = true // what came back before that still counts
	}
	err := l.readFinalHead(resp, x)
	if at := l.upload.doneAt.Load(); at != 0 {
		l.sent = at
	}
	return err
}

// begin sets up the reading of the body whose head has just arrived.
func (l *leg) begin() {
	l.remaining = l.head.length
	l.ended = l.head.framing == bodyNone
	if l.head.framing == bodyChunked {
		l.chunks.blanks = true
		l.chunks.reset()
	}
	if l.head.keepAliveFor > 0 {
		l.pool.limitIdle(l.head.keepAliveFor)
	}
	if l.head.status >= fasthttp.StatusMultipleChoices {
		// The endpoint has decided without the rest of the request. A 2xx may
		// come while it still reads: then both go on side by side.
		_ = l.upload.stop() // the answer tells more
	} else {
		l.upload.settle()
	}
}

// uploading tells, after roundTrip, that the request's body is still being read
// and sent beside the response: until close has returned the body must not be
// touched, and the client's connection cannot be kept.
func (l *leg) uploading() bool { return l.upload.running }

// classify turns the error that ended a try before its response's head into
// what the core knows.
func (l *leg) classify(err error) error {
	u := l.conn
	failed := l.upload.stop()
	switch {
	case failed != nil: // the client's own failure explains the connection's
		return failed
	case err == errClientGone || u.aborted.Load():
		return errClientGone
	case err == errReadTimeout || err == errWriteTimeout:
		return l.timeoutClass(errFirstByteTimeout)
	case err == errBadResponse || u.gotByte && err != errRetired:
		return errBadResponse
	case u.reused && l.upload.repeatable() && connectionBroken(err) && monotonic()-l.sent <= staleWindow:
		l.stale = true
		return errStale
	}
	return errNoResponse
}

// timeoutClass is errDeadline where the whole try's time is over, else class.
func (l *leg) timeoutClass(class error) error {
	if l.deadline != 0 && monotonic() >= l.deadline {
		return errDeadline
	}
	return class
}

// connectionBroken tells the ways in which a closed connection shows.
func connectionBroken(err error) bool {
	return err == io.EOF || err == errRetired ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// keptBody returns the whole body where the last roundTrip has read all of its
// stream before it sent anything, for a roundTrip in its place; false: the
// stream cannot be sent again. It is valid until forget.
func (l *leg) keptBody() ([]byte, bool) { return l.upload.first, l.upload.whole }

// framing says how the response's body ends, and its length: -1 where it is not
// known, 0 where there is no body.
func (l *leg) framing() (bodyFraming, int64) { return l.head.framing, l.head.length }

// close ends the try; idempotent. The connection is kept for others where keep
// is true and the exchange has ended cleanly in every way: the body was read to
// its end, both sides allow it, the upload is done, no byte is left over, and
// the client's leaving did not take it. Else it is closed.
func (l *leg) close(keep bool) {
	u := l.conn
	if u == nil {
		return
	}
	l.conn = nil
	_ = l.upload.stop() // the exchange is over either way
	keep = keep && l.ended && l.head.keepAlive && !l.upload.broken && u.rest()
	if l.slot.retract() && keep {
		l.pool.put(u, monotonic())
		return
	}
	u.tcp.Close()
	l.pool.release()
}

// forget gives back the memory of what was read of the request's stream, at the
// end of the exchange.
func (l *leg) forget() { l.upload.forget() }
