package fastproxy

import (
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
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

	in      []byte // what receiving reads into
	n       int
	err     error
	out     []byte // what sending writes; it leaves the rest
	sendErr error
}

func newSocket(c *net.TCPConn) *socket {
	s := &socket{TCPConn: c}
	raw, err := c.SyscallConn()
	if err != nil {
		panic("BUG: a TCP connection without a descriptor: " + err.Error())
	}
	s.raw = raw
	s.receiving, s.sending = s.receive, s.send
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
	return s.n, nil
}

func (s *socket) receive(fd uintptr) bool {
	s.n, s.err = receiveNow(fd, s.in)
	return s.err != syscall.EAGAIN
}

// Write implements net.Conn.
func (s *socket) Write(p []byte) (int, error) {
	s.out, s.sendErr = p, nil
	err := s.raw.Control(s.sending)
	n := len(p) - len(s.out)
	s.out = nil
	switch {
	case err != nil:
		return n, err
	case n == len(p):
		return n, nil
	case s.sendErr != syscall.EAGAIN && s.sendErr != nil:
		return n, s.sendErr
	}
	m, err := s.TCPConn.Write(p[n:])
	return n + m, err
}

func (s *socket) send(fd uintptr) {
	n, err := sendNow(fd, s.out)
	s.out, s.sendErr = s.out[n:], err
}

// receiveNow reads what is there; EAGAIN: nothing is.
func receiveNow(fd uintptr, p []byte) (int, error) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
		switch e {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, errAgain
		default:
			return 0, e
		}
	}
}

// sendNow writes as much as there is room for; EAGAIN: there is none.
func sendNow(fd uintptr, p []byte) (int, error) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch e {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, errAgain
		default:
			return 0, e
		}
	}
}

// errAgain is syscall.EAGAIN as an error, made once.
var errAgain error = syscall.EAGAIN
