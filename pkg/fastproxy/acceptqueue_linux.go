package fastproxy

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// maxQueued bounds how many queued connections one drain takes: more than any
// backlog holds.
const maxQueued = 1 << 16

// acceptQueued takes the connections that the kernel has established and nobody
// has accepted yet. Closing the listener would reset them, although their
// clients may have sent requests already.
func acceptQueued(l net.Listener) (conns []*net.TCPConn) {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(listener uintptr) {
		// From here on the kernel leaves those unanswered that would connect: they
		// ask again and are refused then, which no client takes for a lost request.
		_ = unix.Listen(int(listener), 0)
		for range maxQueued {
			fd, _, err := unix.Accept4(int(listener), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			switch err {
			case nil:
				if c := tcpConnOf(fd); c != nil {
					conns = append(conns, c)
				}
			case unix.EINTR, unix.ECONNABORTED:
			default: // EAGAIN: the queue is empty
				return
			}
		}
	})
	return conns
}

// tcpConnOf hands a socket to the runtime; nil: it has ended already.
func tcpConnOf(fd int) *net.TCPConn {
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		_ = c.Close()
		return nil
	}
	return tcp
}
