package fastproxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// upstreamBuffer holds what was read from an endpoint and not yet passed
	// on: heads up to this size cost no allocation.
	upstreamBuffer = 16 << 10
	// maxResponseHead bounds a response's head.
	maxResponseHead = 64 << 10
	// maxWrite bounds one write, so that a stalled endpoint is told from a
	// slow one.
	maxWrite = 256 << 10
)

// longAgo as a deadline interrupts whoever waits.
var longAgo = time.Unix(1, 0)

// errReadTimeout and errWriteTimeout leave read and write when their time is
// over; the leg says which of its times that was.
var (
	errReadTimeout  = errors.New("fastproxy: upstream read timed out")
	errWriteTimeout = errors.New("fastproxy: upstream write timed out")
	// errUnsent: a reused connection turned out closed, or with bytes nobody
	// asked for, before a byte of the request was sent.
	errUnsent = errors.New("fastproxy: reused connection is unusable")
)

// upstreamConn is one TCP connection to an endpoint. One goroutine uses it at a
// time; only abort may be called by others. While an upload runs beside the
// reading (see upload), its goroutine alone writes.
//
// Deadlines are armed ahead of their need: until is the time by which the next
// read has to succeed, armed what the runtime's timer is set to. A timer that
// fires too early is set again; so a busy connection sets it about once per
// timeout instead of once per read, and no timeout is late.
type upstreamConn struct {
	pool *pool
	tcp  *socket
	br   *bufio.Reader // reads from this upstreamConn

	// out is a request that the next read sends first; buffer is its memory.
	out, buffer []byte
	// unread is served before the socket: what the buffer held that br replaced.
	unread []byte
	// gotByte is set by the first byte of a response.
	gotByte bool
	transceiver

	until, armed int64 // of reads, monotonic nanoseconds; 0: none
	// stall bounds, in nanoseconds, how long a write may make no progress,
	// deadline all writes; writeArmed is what the runtime's timer is set to.
	stall, deadline, writeArmed int64
	up                          *upload // runs beside the reading; nil: none

	idleSince, expires int64
	reused             bool

	aborted atomic.Bool
	mu      sync.Mutex // guards tcp against abort while connecting
	cancel  context.CancelFunc
}

// abort breaks off the exchange on u: the endpoint sees the close at once, and
// whoever waits on u returns. Any goroutine; idempotent.
func (u *upstreamConn) abort() {
	u.aborted.Store(true)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tcp != nil {
		u.tcp.Close()
	} else if u.cancel != nil {
		u.cancel()
	}
}

// setConn installs the connection that was made; false: u was aborted while it
// was.
func (u *upstreamConn) setConn(tcp *net.TCPConn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.aborted.Load() {
		tcp.Close()
		return false
	}
	u.tcp, u.cancel = newSocket(tcp), nil
	u.br = bufio.NewReaderSize(u, upstreamBuffer)
	u.prepare()
	return true
}

// closeIdle closes a connection that no exchange uses. Bytes that nobody asked
// for are thrown away first: the kernel answers a close over them with a reset.
func (u *upstreamConn) closeIdle() {
	u.drain()
	u.tcp.Close()
}

// rest readies u for another exchange; false: it must not have one.
func (u *upstreamConn) rest() bool {
	u.out, u.up = nil, nil
	if u.br.Size() > upstreamBuffer {
		return false // it holds more memory than an unused connection should
	}
	if u.br.Buffered() > 0 || len(u.unread) > 0 {
		u.pool.sawSurplus()
		return false
	}
	return true
}

// unasked judges what came on an unused connection. A server that says 408
// before it closes one is in its right.
func (u *upstreamConn) unasked(b []byte) {
	const timeout = "HTTP/1.1 408 "
	if len(b) > 0 && (len(b) < len(timeout) || string(b[:7]) != timeout[:7] || string(b[8:len(timeout)]) != timeout[8:]) {
		u.pool.sawSurplus()
	}
}

// Read reads from the endpoint for br, after sending what is queued. It returns
// errUnsent, errReadTimeout, errWriteTimeout, errClientGone or the connection's
// own error.
func (u *upstreamConn) Read(p []byte) (int, error) {
	if len(u.unread) > 0 {
		n := copy(p, u.unread)
		u.unread = u.unread[n:]
		return n, nil
	}
	for {
		u.arm()
		if u.up != nil && u.up.over() {
			// The time for the first byte has begun.
			u.until, u.armed = u.up.firstByteUntil(), 0
			u.up = nil
			continue
		}
		var n int
		var err error
		if len(u.out) > 0 {
			n, err = u.transceive(p)
		} else {
			n, err = u.tcp.Read(p)
		}
		if n > 0 {
			u.gotByte = true
			return n, nil
		}
		if err == nil {
			continue
		}
		if err == io.EOF || !pastDeadline(err) {
			if u.aborted.Load() {
				return 0, errClientGone
			}
			return 0, err
		}
		u.armed = 0
		if u.until != 0 && monotonic() >= u.until {
			return 0, errReadTimeout
		}
	}
}

// arm sets the read deadline where the one set would come too late, or has
// passed.
func (u *upstreamConn) arm() {
	switch {
	case u.until == 0:
		if u.armed == 0 {
			u.tcp.SetReadDeadline(time.Time{})
			u.armed = never
		}
	case u.armed == 0 || u.armed > u.until || u.armed <= monotonic():
		u.armed = u.until
		u.tcp.SetReadDeadline(atMonotonic(u.until))
	}
}

// never stands in armed for a deadline that is known not to be set.
const never = int64(1) << 62

// writeAll writes p, giving up with errWriteTimeout when u.stall passes without
// progress, at u.deadline, or when it is interrupted after stopped (may be nil)
// was set.
func (u *upstreamConn) writeAll(p []byte, stopped *atomic.Bool) error {
	for len(p) > 0 {
		now := monotonic()
		until := earlier(u.deadline, after(now, u.stall))
		if until != 0 && (u.writeArmed == 0 || u.writeArmed > until || u.writeArmed <= now) {
			u.writeArmed = until
			u.tcp.SetWriteDeadline(atMonotonic(until))
		}
		if stopped != nil && stopped.Load() {
			return errWriteTimeout
		}
		n, err := u.tcp.Write(p[:min(len(p), maxWrite)])
		p = p[n:]
		if err == nil {
			continue
		}
		if !pastDeadline(err) {
			return err
		}
		u.writeArmed = 0
		if until == 0 {
			u.tcp.SetWriteDeadline(time.Time{})
			continue
		}
		now = monotonic()
		if u.deadline != 0 && now >= u.deadline || n == 0 && now >= until {
			return errWriteTimeout
		}
	}
	return nil
}

// after is the time d nanoseconds after now; 0 where d is no bound.
func after(now, d int64) int64 {
	if d <= 0 {
		return 0
	}
	return now + d
}

// earlier is the earlier of two times of which 0 means none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// earlierTime is the shorter of two bounds of which 0 means none.
func earlierTime(a, b time.Duration) time.Duration {
	return time.Duration(earlier(int64(a), int64(b)))
}

// pastDeadline tells whether a deadline interrupted a read or a write.
func pastDeadline(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
