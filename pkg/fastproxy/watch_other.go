//go:build unix && !linux

package fastproxy

import (
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watchEvery is how often the watcher looks at the client connections.
const watchEvery = 50 * time.Millisecond

// watcher tells exchanges when their client has left, where there is no
// EPOLLRDHUP: it peeks at every connection from time to time. It does not see a
// client leave that has sent more than was read.
type watcher struct {
	stop   chan struct{}
	closed sync.Once

	mu    sync.Mutex
	last  uint64
	conns map[uint64]watched
}

type watched struct {
	raw  syscall.RawConn
	slot *clientSlot
}

func newWatcher(*slog.Logger) *watcher {
	w := &watcher{stop: make(chan struct{}), conns: map[uint64]watched{}}
	go w.run()
	return w
}

// add watches c: when its peer leaves, slot is fired. It returns the number for
// remove; 0: c is not watched.
func (w *watcher) add(c *net.TCPConn, slot *clientSlot) uint64 {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	w.conns[w.last] = watched{raw, slot}
	return w.last
}

// remove forgets a connection.
func (w *watcher) remove(n uint64) {
	w.mu.Lock()
	delete(w.conns, n)
	w.mu.Unlock()
}

func (w *watcher) run() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		w.mu.Lock()
		for n, c := range w.conns {
			if left(c.raw) {
				c.slot.fire()
				delete(w.conns, n)
			}
		}
		w.mu.Unlock()
	}
}

// left says whether the peer has ended its side and everything it sent was read.
func left(raw syscall.RawConn) (gone bool) {
	_ = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err == unix.ECONNRESET
	})
	return gone
}

// close ends the watcher. Idempotent.
func (w *watcher) close() { w.closed.Do(func() { close(w.stop) }) }
