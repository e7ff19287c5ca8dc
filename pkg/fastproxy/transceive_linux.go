package fastproxy

import (
	"io"
	"syscall"
)

// transceiver sends a request and receives the first bytes of its response
// within one wait of the runtime's poller, which costs as many system calls as
// a write and a read: the read attempt that would come to nothing between the
// two is made before the write instead. There it tells, for every exchange on a
// reused connection, that the endpoint has neither closed it nor sent anything
// since. The functions are made once per connection; they own the descriptor
// for as long as they run.
type transceiver struct {
	step  func(fd uintptr) bool
	probe func(fd uintptr)
	in    []byte
	n     int
	err   error
	sent  bool
	quiet bool
	some  [16]byte // what usable reads
}

func (u *upstreamConn) prepare() {
	u.step = u.transceiveStep
	u.probe = u.probeStep
}

// transceive writes u.out and reads into p. It returns 0 and no error where
// more reading by ordinary means is due.
func (u *upstreamConn) transceive(p []byte) (int, error) {
	u.in, u.n, u.err, u.sent = p, 0, nil, false
	err := u.tcp.raw.Read(u.step)
	u.in = nil
	switch {
	case err != nil:
		return 0, err
	case u.err != nil || u.n > 0:
		u.out = nil
		return u.n, u.err
	case len(u.out) > 0:
		err = u.writeAll(u.out, nil)
		u.out = nil
		if err != nil && err != errWriteTimeout {
			// A response that came before the connection broke counts.
			if n, _ := u.tcp.Read(p); n > 0 {
				return n, nil
			}
		}
	}
	return 0, err
}

// transceiveStep runs on the descriptor until it returns true; false waits
// until it may be read. Only what comes after the poller was made ready wakes
// it, so every return of false follows an attempt to read made since.
func (u *upstreamConn) transceiveStep(fd uintptr) bool {
	if !u.sent {
		if u.reused && u.pending(fd) {
			u.err = errUnsent
			return true
		}
		n, err := sendNow(fd, u.out)
		switch {
		case err == syscall.EAGAIN:
			return true
		case err != nil:
			// A response that came before the connection broke counts.
			if u.n, _ = receiveNow(fd, u.in); u.n <= 0 {
				u.n, u.err = 0, err
			}
			return true
		}
		u.out = u.out[n:]
		if len(u.out) > 0 {
			return true
		}
		u.sent = true
		if u.reused {
			return false
		}
	}
	n, err := receiveNow(fd, u.in)
	switch {
	case err == syscall.EAGAIN:
		return false
	case err != nil:
		u.err = err
	case n == 0:
		u.err = io.EOF
	default:
		u.n = n
	}
	return true
}

// pending tells whether there is anything to read: bytes, the end or an error.
func (u *upstreamConn) pending(fd uintptr) bool {
	n, err := receiveNow(fd, u.in)
	if err == syscall.EAGAIN {
		return false
	}
	u.unasked(u.in[:max(n, 0)])
	return true
}

// usable tells whether the endpoint has neither closed the unused connection
// nor sent anything on it.
func (u *upstreamConn) usable() bool {
	u.in = u.some[:]
	err := u.tcp.raw.Control(u.probe)
	u.in = nil
	return err == nil && u.quiet
}

func (u *upstreamConn) probeStep(fd uintptr) { u.quiet = !u.pending(fd) }

// drain throws away what has been received, up to a bound.
func (u *upstreamConn) drain() {
	u.in = make([]byte, 4<<10)
	_ = u.tcp.raw.Control(func(fd uintptr) {
		for range 64 {
			n, err := receiveNow(fd, u.in)
			if n <= 0 || err != nil {
				return
			}
		}
	})
	u.in = nil
}
