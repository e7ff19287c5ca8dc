package fastproxy

import (
	"bufio"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// countTurns counts how often another goroutine of a single processor gets to
// run, until it is told to stop.
func countTurns(t *testing.T, turns *atomic.Int64) {
	t.Helper()
	before := runtime.GOMAXPROCS(1)
	var stop atomic.Bool
	ended := make(chan struct{})
	t.Cleanup(func() {
		stop.Store(true)
		<-ended
		runtime.GOMAXPROCS(before)
	})
	go func() {
		defer close(ended)
		for !stop.Load() {
			turns.Add(1)
			runtime.Gosched()
		}
	}()
}

// TestPipelineTakesTurns: requests that have all arrived are answered in one go,
// and others get their turns all the same.
func TestPipelineTakesTurns(t *testing.T) {
	const n = 64
	var turns, first, last atomic.Int64
	core := fixedCore("ok")
	tc := &testCore{answer: func(x *exchange) {
		switch now := turns.Load(); {
		case strings.HasPrefix(string(x.req.path), "/first"):
			first.Store(now)
		case strings.HasPrefix(string(x.req.path), "/last"):
			last.Store(now)
		}
		core(x)
	}}
	for name, rest := range map[string]string{
		"no body": "Host: a\r\n\r\n",
		"chunks":  "Host: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, addr := testFront(t, tc, nil)
			countTurns(t, &turns)
			c := dialFront(t, addr)
			br := bufio.NewReader(c)
			// A turn may go to the client, or to the runtime itself: the most counts.
			most := int64(0)
			for try := 0; try < 100 && most < n/turnRequests; try++ {
				sendRaw(t, c, "POST /first HTTP/1.1\r\n"+rest+strings.Repeat("POST / HTTP/1.1\r\n"+rest, n)+"POST /last HTTP/1.1\r\n"+rest)
				for range n + 2 {
					readAnswer(t, br, "POST")
				}
				most = max(most, last.Load()-first.Load())
			}
			if most < n/turnRequests {
				t.Errorf("%d turns of others within %d requests, want at least %d", most, n, n/turnRequests)
			}
		})
	}
}

// TestReadTakesTurns: a connection that is read without ever a wait lets others
// go first now and then.
func TestReadTakesTurns(t *testing.T) {
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	far := dialFront(t, ln.Addr().String())
	near, err := ln.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	s := newSocket(near)
	if _, err := io.WriteString(far, "ab"); err != nil {
		t.Fatal(err)
	}
	var turns atomic.Int64
	countTurns(t, &turns)
	var b [1]byte
	if _, err := s.Read(b[:]); err != nil {
		t.Fatal(err)
	}
	// On several processors the others may get on by themselves, or be late.
	for range 100 {
		if _, err := io.WriteString(far, "c"); err != nil {
			t.Fatal(err)
		}
		s.ready = turnBytes - 1
		before := turns.Load()
		if _, err := s.Read(b[:]); err != nil {
			t.Fatal(err)
		}
		if s.ready != 0 {
			t.Fatalf("%d bytes count towards a turn that has been taken", s.ready)
		}
		if turns.Load() > before {
			return
		}
	}
	t.Errorf("no turn for others in a hundred times %d bytes", turnBytes)
}
