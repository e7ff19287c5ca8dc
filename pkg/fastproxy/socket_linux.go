package fastproxy

import (
	"io"
	"net"
	"runtime"
	"syscall"
)

// socket is a TCP connection that is read and written by system calls that the
// scheduler does not hear of. They never wait, so there is nothing for it to
// arrange; told of them, it would look after each within microseconds, to give
// the processor away, and that costs more than it ever gains here. What has to
// wait waits in the runtime's poller, as ever, and deadlines hold.
//
// One goroutine may read while another writes. The descriptor stays open for
// as long as a call uses it: syscall.RawConn holds it.
type socket struct {
	*net.TCPConn
	raw syscall.RawConn

	// Made once: a method value allocates.
	receiving func(fd uintptr) bool
	sending   func(fd uintptr)
	attending func(fd uintptr) bool

	in      []byte // what receiving reads into
	n       int
	err     error
	ready   int    // bytes received since something had to be waited for
	out     []byte // what sending writes; it leaves the rest
	sendErr error
	// attendant is whom attending serves.
	attendant attendant
}

func newSocket(c *net.TCPConn) *socket {
	s := &socket{TCPConn: c}
	raw, err := c.SyscallConn()
	if err != nil {
		panic("BUG: a TCP connection without a descriptor: " + err.Error())
	}
	s.raw = raw
	s.receiving, s.sending, s.attending = s.receive, s.send, s.attendNow
	return s
}

// Read implements net.Conn.
func (s *socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.in, s.n, s.err = p, 0, nil
	err := s.raw.Read(s.receiving)
	s.in = nil
	switch {
	case err != nil:
		return 0, err
	case s.err != nil:
		return 0, s.err
	case s.n == 0:
		return 0, io.EOF
	}
	if s.ready += s.n; s.ready >= turnBytes {
		s.ready = 0
		runtime.Gosched()
	}
	return s.n, nil
}

// turnBytes is how much is read without a wait before others get a turn. The
// runtime would let each wait 10 ms for each such connection.
const turnBytes = 512 << 10

func (s *socket) receive(fd uintptr) bool {
	if s.n, s.err = receiveNow(fd, s.in); s.err != errAgain {
		return true
	}
	s.ready = 0
	return false
}

// attend is the attend of all connections in one wait of the runtime's poller:
// it reads only when the poller says that something has come. Read on the
// contrary has to make an attempt that comes to nothing before each wait,
// because it makes the poller forget what came before. That the client has left
// may go unseen here, where it did so in the instant of sending; the watcher
// tells.
func (s *socket) attend(a attendant) error {
	s.attendant, s.err = a, nil
	err := s.raw.Read(s.attending)
	s.attendant = nil
	if err == nil {
		err = s.err
	}
	return err
}

func (s *socket) attendNow(fd uintptr) bool {
	for {
		p := s.attendant.room()
		n, err := receiveNow(fd, p)
		switch {
		case err == errAgain:
			return false
		case err != nil:
			s.err = err
			return true
		case n == 0:
			s.err = io.EOF
			return true
		case s.attendant.received(n):
			return true
		case n < len(p):
			return false // that was all; more makes the poller ready again
		}
	}
}

// Write implements net.Conn.
func (s *socket) Write(p []byte) (int, error) {
	n, err := s.writeNow(p)
	if err != nil || n == len(p) {
		return n, err
	}
	m, err := s.TCPConn.Write(p[n:])
	return n + m, err
}

// writeNow writes as much of p as there is room for.
func (s *socket) writeNow(p []byte) (int, error) {
	s.out, s.sendErr = p, nil
	err := s.raw.Control(s.sending)
	n := len(p) - len(s.out)
	s.out = nil
	if err == nil && s.sendErr != errAgain {
		err = s.sendErr
	}
	return n, err
}

func (s *socket) send(fd uintptr) {
	n, err := sendNow(fd, s.out)
	s.out, s.sendErr = s.out[n:], err
}

// errAgain is syscall.EAGAIN as an error, made once.
var errAgain error = syscall.EAGAIN
