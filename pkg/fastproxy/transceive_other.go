//go:build !linux

package fastproxy

import (
	"os"
	"time"
)

// transceiver is empty where only portable means are used.
type transceiver struct{}

func (u *upstreamConn) prepare() {}

// transceive writes u.out; the read that is due then is made by ordinary means.
func (u *upstreamConn) transceive(p []byte) (int, error) {
	if u.reused && !u.usable() {
		u.out = nil
		return 0, errUnsent
	}
	err := u.writeAll(u.out, nil)
	u.out = nil
	return 0, err
}

// usable tells whether the endpoint has neither closed the unused connection
// nor sent anything on it, by a read with no time to wait.
func (u *upstreamConn) usable() bool {
	var some [16]byte
	u.tcp.SetReadDeadline(time.Now().Add(50 * time.Microsecond))
	u.armed = 0
	n, err := u.tcp.Read(some[:])
	u.unasked(some[:n])
	return os.IsTimeout(err)
}

// drain throws away what has been received, up to a bound.
func (u *upstreamConn) drain() {
	buf := make([]byte, 4<<10)
	u.tcp.SetReadDeadline(time.Now().Add(50 * time.Microsecond))
	for range 64 {
		if _, err := u.tcp.Read(buf); err != nil {
			return
		}
	}
}
