package fastproxy

import (
	"log/slog"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// watcher tells exchanges when their client has left: one epoll set holds every
// client connection, registered once with EPOLLRDHUP, edge-triggered. It looks
// at TCP, so it works below TLS and with unread bytes in the buffer, and costs
// nothing per request. A client that shuts its sending side down counts as
// gone.
//
// Events carry a connection's number, never its descriptor, because the kernel
// reuses descriptors.
type watcher struct {
	epoll  int
	wake   int // an eventfd; readable: close
	ended  chan struct{}
	closed sync.Once

	mu    sync.Mutex
	last  uint64
	slots map[uint64]*clientSlot
}

// wakeNumber is no connection's number.
const wakeNumber = 0

// newWatcher starts a watcher. Where the system gives none, it watches nothing,
// says so in the log, and clients that leave are noticed at the next write.
func newWatcher(l *slog.Logger) *watcher {
	w := &watcher{epoll: -1, wake: -1, slots: map[uint64]*clientSlot{}, ended: make(chan struct{})}
	if err := w.open(); err != nil {
		l.Error("cannot watch client connections; clients that leave are noticed late", slog.Any("error", err))
		close(w.ended)
		return w
	}
	go w.run()
	return w
}

func (w *watcher) open() (err error) {
	if w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		e := numbered(wakeNumber, unix.EPOLLIN)
		if err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, w.wake, &e); err == nil {
			return nil
		}
		_ = unix.Close(w.epoll)
		w.epoll = -1
	}
	_ = unix.Close(w.wake)
	return err
}

// numbered is an event registration that carries n.
func numbered(n uint64, events uint32) unix.EpollEvent {
	return unix.EpollEvent{Events: events, Fd: int32(uint32(n)), Pad: int32(uint32(n >> 32))}
}

// add watches c: when its peer leaves, slot is fired. It returns the number for
// remove; 0: c is not watched.
func (w *watcher) add(c *net.TCPConn, slot *clientSlot) uint64 {
	if w.epoll < 0 {
		return 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	w.mu.Lock()
	w.last++
	n := w.last
	w.slots[n] = slot
	w.mu.Unlock()
	e := numbered(n, unix.EPOLLRDHUP|unix.EPOLLET&0xffffffff)
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, int(fd), &e)
	})
	if err != nil || failed != nil {
		w.remove(n)
		return 0
	}
	return n
}

// remove forgets a connection; the kernel takes it out of the set when it is
// closed. After remove its slot is not fired any more, save by an event that is
// being handled.
func (w *watcher) remove(n uint64) {
	w.mu.Lock()
	delete(w.slots, n)
	w.mu.Unlock()
}

// run waits for events until close.
func (w *watcher) run() {
	defer close(w.ended)
	var events [128]unix.EpollEvent
	for {
		n, err := unix.EpollWait(w.epoll, events[:], -1)
		if err != nil && err != unix.EINTR {
			return
		}
		for i := range max(n, 0) {
			number := uint64(uint32(events[i].Fd)) | uint64(uint32(events[i].Pad))<<32
			if number == wakeNumber {
				return
			}
			w.mu.Lock()
			slot := w.slots[number]
			w.mu.Unlock()
			if slot != nil {
				slot.fire()
			}
		}
	}
}

// close ends the watcher. Idempotent.
func (w *watcher) close() {
	w.closed.Do(func() {
		if w.epoll < 0 {
			return
		}
		one := [8]byte{1}
		_, _ = unix.Write(w.wake, one[:])
		<-w.ended
		_ = unix.Close(w.epoll)
		_ = unix.Close(w.wake)
	})
}
