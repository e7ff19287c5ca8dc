//go:build race

package fastproxy

import "syscall"

// The race detector takes what is received for ordered after what was sent. It
// learns of both from package syscall only.

// receiveNow reads what is there; EAGAIN: nothing is.
func receiveNow(fd uintptr, p []byte) (int, error) { return callNow(syscall.Read, fd, p) }

// sendNow writes as much as there is room for; EAGAIN: there is none.
func sendNow(fd uintptr, p []byte) (int, error) { return callNow(syscall.Write, fd, p) }

func callNow(call func(int, []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		n, err := call(int(fd), p)
		switch err {
		case nil:
			return n, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, errAgain
		default:
			return 0, err
		}
	}
}
