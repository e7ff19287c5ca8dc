package fastproxy

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unacknowledgedLimit is how long sent bytes may stay without the peer's
// acknowledgement: a node that died takes its connections with it in this time
// instead of the kernel's quarter of an hour.
const unacknowledgedLimit = 90 * time.Second

func limitUnacknowledged(_, _ string, c syscall.RawConn) error {
	var err error
	errControl := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
			int(unacknowledgedLimit.Milliseconds()))
	})
	if errControl != nil {
		return errControl
	}
	return err
}
