//go:build unix

package fastproxy

import (
	"bufio"
	"io"
	"syscall"
	"testing"
	"time"
)

// TestAcceptDescriptorsUsedUp holds that the accept loop outlives a shortage of
// descriptors. It lowers the process's limit for a moment and runs alone.
func TestAcceptDescriptorsUsedUp(t *testing.T) {
	f, addr := testFront(t, &testCore{answer: fixedCore("ok")}, nil)
	before := f.counters.acceptErrors.Load()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	// The lowest free descriptor is the client's, and the last one allowed.
	free, err := syscall.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Close(free)
	low := limit
	low.Cur = uint64(free + 1)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	defer restore()
	c := dialFront(t, addr)
	waitUntil(t, "accept fails", func() bool { return f.counters.acceptErrors.Load() > before+1 })
	restore()
	sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, body := readAnswer(t, bufio.NewReader(c), "GET"); body != "ok" {
		t.Errorf("got %q", body)
	}
}

func TestConnectionLimit(t *testing.T) {
	f, addr := testFront(t, &testCore{answer: fixedCore("ok")}, func(o *Options) { o.Limits.Connections = 2 })
	one, two := dialFront(t, addr), dialFront(t, addr)
	waitUntil(t, "two connections", func() bool { return f.counters.open.Load() == 2 })
	if got := exchangeRaw(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); statusOf(got) != "503" {
		t.Errorf("over the limit: %q", got)
	}
	if n := f.counters.overLimit.Load(); n != 1 {
		t.Errorf("%d counted", n)
	}
	_ = one.Close()
	waitUntil(t, "one connection", func() bool { return f.counters.open.Load() == 1 })
	if got := exchangeRaw(t, addr, "GET / HTTP/1.0\r\n\r\n"); statusOf(got) != "200" {
		t.Errorf("below the limit again: %q", got)
	}
	_ = two.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := two.Read(make([]byte, 1)); err == io.EOF {
		t.Error("a connection within the limit was closed")
	}
}
