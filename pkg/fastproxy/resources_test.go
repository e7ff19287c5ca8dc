package fastproxy

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// resources are what a process holds: they must be back where they were when a
// storm is over.
type resources struct {
	goroutines, descriptors int
	heap                    uint64 // bytes in use after a collection
}

func readResources() resources {
	runtime.GC()
	runtime.GC() // the second empties the pools' victims
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return resources{goroutines: runtime.NumGoroutine(), descriptors: descriptors(), heap: m.HeapAlloc}
}

// descriptors counts the open ones; 0 where the system does not tell.
func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// watchResources reads the baseline.
func watchResources(t testing.TB) resources {
	t.Helper()
	return readResources()
}

// What may be left over: pooled upstream connections end by themselves, so they
// are ended here; buffers in pools and the runtime's own may stay.
const (
	sparedGoroutines  = 20
	sparedDescriptors = 20
	sparedHeap        = 16 << 20
)

// check waits until everything is back at the baseline. The clients of the test
// must have closed their connections.
func (before resources) check(t testing.TB, p *proxy) {
	t.Helper()
	var now resources
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		now = readResources()
		if now.goroutines <= before.goroutines+sparedGoroutines && now.descriptors <= before.descriptors+sparedDescriptors &&
			now.heap <= before.heap+sparedHeap {
			break
		}
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			t.Fatalf("not back at the baseline: %+v, was %+v\n%s", now, before, buf[:runtime.Stack(buf, true)])
		}
	}
	t.Logf("before %+v, after %+v", before, now)
	if n := p.front.counters.open.Load(); n != int64(p.front.conns.len()) {
		t.Errorf("%d connections counted, %d registered", n, p.front.conns.len())
	}
}

// isReset says whether err is a connection's end by reset.
func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }

// stackBytes is what the goroutines' stacks take.
func stackBytes() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.StackInuse)
}
