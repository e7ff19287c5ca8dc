package fastproxy

import "golang.org/x/sys/unix"

// tcpCloseWait is the state of a connection whose other side has ended in good
// order. A reset leaves another one.
const tcpCloseWait = 8

// requestReceived tells, of a connection that ended without an answer, whether
// the endpoint's process may have read all that was sent: it was acknowledged,
// and then the connection ended in good order. A process that is gone, or has
// closed the connection, before it read everything answers with a reset; one
// that closed before anything arrived acknowledges nothing.
func (u *upstreamConn) requestReceived() bool {
	received := true
	err := u.tcp.raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			received = info.State == tcpCloseWait && info.Unacked == 0 && info.Notsent_bytes == 0
		}
	})
	return err != nil || received
}
