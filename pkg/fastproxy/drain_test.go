package fastproxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// TestDrain holds what becomes of connections of every kind: none loses an
// answer, all are gone when drain returns.
func TestDrain(t *testing.T) {
	finish := make(chan struct{})
	begun := make(chan struct{}, 10)
	tc := &testCore{
		answer: func(x *exchange) {
			x.resp.header.SetStatusCode(200)
			switch string(x.req.path) {
			case "/active":
				begun <- struct{}{}
				<-finish
				x.resp.body = []byte("answer")
			case "/stream":
				x.resp.stream, x.resp.length = true, -1
			case "/tunnel":
				x.resp.header.SetStatusCode(101)
				x.tunnel = true
			}
		},
		stream: func(_ *exchange, w flushWriter) (int64, error) {
			_, _ = io.WriteString(w, "first ")
			_ = w.Flush()
			begun <- struct{}{}
			<-finish
			_, err := io.WriteString(w, "last")
			return 10, err
		},
		tunnel: func(_ *exchange, c net.Conn, _ []byte) { begun <- struct{}{}; _, _ = io.Copy(c, c) },
	}
	f, addr := testFront(t, tc, nil)
	open := func(path string) (*net.TCPConn, *bufio.Reader) {
		c := dialFront(t, addr)
		extra := ""
		if path == "/tunnel" {
			extra = "Connection: Upgrade\r\nUpgrade: x\r\n"
		}
		sendRaw(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n"+extra+"\r\n")
		return c, bufio.NewReader(c)
	}
	fresh := dialFront(t, addr)
	idle, idleReader := open("/")
	readAnswer(t, idleReader, "GET")
	used, usedReader := open("/")
	readAnswer(t, usedReader, "GET")
	_, active := open("/active")
	_, stream := open("/stream")
	tunnel, tunnelReader := open("/tunnel")
	h2 := h2cClient(t)
	h2answer := make(chan string, 2)
	for _, path := range []string{"/active", "/stream"} {
		go func() {
			resp, err := h2.Get("http://" + addr + path)
			if err != nil {
				h2answer <- err.Error()
				return
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				b = []byte(err.Error())
			}
			h2answer <- string(b)
		}()
	}
	for range 5 {
		<-begun
	}
	drained := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	go func() { drained <- f.drain(ctx) }()
	waitUntil(t, "no new connections", func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	// A request that comes on an idle connection right away is still answered.
	sendRaw(t, used, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, _ := readAnswer(t, usedReader, "GET"); !resp.Close {
		t.Error("an answer during the drain does not end its connection")
	}
	for name, c := range map[string]net.Conn{"new": fresh, "idle": idle} {
		if b, err := io.ReadAll(c); len(b) != 0 || err != nil {
			t.Errorf("%s: %q %v, want a quiet end", name, b, err)
		}
	}
	select {
	case err := <-drained:
		t.Fatalf("drain returned while exchanges run: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(finish)
	if resp, body := readAnswer(t, active, "GET"); body != "answer" || !resp.Close {
		t.Errorf("active: %q, close %v", body, resp.Close)
	}
	if _, body := readAnswer(t, stream, "GET"); body != "first last" {
		t.Errorf("stream: %q", body)
	}
	for range 2 {
		if got := <-h2answer; got != "answer" && got != "first last" {
			t.Errorf("h2: %q", got)
		}
	}
	if resp, err := http.ReadResponse(tunnelReader, nil); err != nil || resp.StatusCode != 101 {
		t.Fatalf("%v %v", resp, err)
	}
	sendRaw(t, tunnel, "through")
	_ = tunnel.CloseWrite()
	if b, err := io.ReadAll(tunnelReader); string(b) != "through" || err != nil {
		t.Errorf("tunnel: %q %v", b, err)
	}
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
}

// TestDrainCuts holds that what runs for too long is cut, counted and finished.
func TestDrainCuts(t *testing.T) {
	begun := make(chan struct{}, 1)
	tc := &testCore{answer: func(x *exchange) {
		begun <- struct{}{}
		for !x.slot.gone.Load() {
			time.Sleep(time.Millisecond)
		}
		x.resp.header.SetStatusCode(200)
	}}
	f, addr := testFront(t, tc, nil)
	c := dialFront(t, addr)
	sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := f.drain(ctx); err == nil || !strings.Contains(err.Error(), "1 connections") {
		t.Errorf("drain: %v", err)
	}
}

// TestApplyPorts holds that ports come and go while the others stay.
func TestApplyPorts(t *testing.T) {
	tc := &testCore{answer: fixedCore("ok")}
	f, addr := testFront(t, tc, nil)
	c := dialFront(t, addr)
	br := bufio.NewReader(c)
	get := func() *http.Response {
		t.Helper()
		sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		resp, _ := readAnswer(t, br, "GET")
		return resp
	}
	get()
	// listen binds a loopback port that is a listener port with the offset.
	listen := func() (port uint16, l net.Listener) {
		for range 1000 {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if n := l.Addr().(*net.TCPAddr).Port - f.portOffset; n > 0 {
				return uint16(n), l
			}
			l.Close()
		}
		t.Fatal("no free port above the offset")
		return 0, nil
	}
	free, l := listen()
	l.Close()
	other := &routing.Socket{Port: free}
	first := &routing.Socket{Port: testPort}
	if err := f.apply([]*routing.Socket{first, other}); err != nil {
		t.Fatal(err)
	}
	if f.addr(testPort).String() != addr {
		t.Error("the port that stays was bound anew")
	}
	if got := exchangeRaw(t, f.addr(other.Port).String(), "GET / HTTP/1.0\r\n\r\n"); statusOf(got) != "200" {
		t.Errorf("new port: %q", got)
	}
	get()
	otherAddr := f.addr(other.Port).String()
	if err := f.apply([]*routing.Socket{other}); err != nil {
		t.Fatal(err)
	}
	if resp := get(); !resp.Close {
		t.Error("the answer on a removed port does not end its connection")
	}
	if _, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		t.Error("the removed port still accepts")
	}
	// A port that somebody else has: an error that names it, the others serve.
	taken, l := listen()
	defer l.Close()
	busy := &routing.Socket{Port: taken}
	err := f.apply([]*routing.Socket{busy, other})
	if err == nil || !strings.Contains(err.Error(), "cannot listen on port") || !strings.Contains(err.Error(), "free the port") {
		t.Errorf("busy port: %v", err)
	}
	if got := exchangeRaw(t, otherAddr, "GET / HTTP/1.0\r\n\r\n"); statusOf(got) != "200" {
		t.Errorf("the other port: %q", got)
	}
}

func TestConnectionAge(t *testing.T) {
	_, addr := testFront(t, &testCore{answer: fixedCore("ok")}, func(o *Options) { o.Limits.ConnectionAge = 100 * time.Millisecond })
	c := dialFront(t, addr)
	br := bufio.NewReader(c)
	sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, _ := readAnswer(t, br, "GET"); resp.Close {
		t.Error("a young connection ends")
	}
	time.Sleep(120 * time.Millisecond)
	sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, _ := readAnswer(t, br, "GET"); !resp.Close {
		t.Error("an old connection stays")
	}
}

// TestEndBetweenAnswerAndIdle: a port that is removed, or a drain that begins,
// after an answer has promised that the connection goes on and before it is
// idle, still leaves the client its grace: the next request is answered, and that
// answer ends the connection.
func TestEndBetweenAnswerAndIdle(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, f *front){
		"removed port": func(t *testing.T, f *front) {
			if err := f.apply(nil); err != nil {
				t.Error(err)
			}
		},
		"drain": func(t *testing.T, f *front) {
			ended := make(chan error, 1)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			t.Cleanup(cancel)
			go func() { ended <- f.drain(ctx) }()
			t.Cleanup(func() {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
			waitUntil(t, "the drain has begun", f.draining.Load)
		},
	} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan *front, 1)
			tc := &testCore{answer: fixedCore("ok"), finish: sync.OnceFunc(func() { end(t, <-begun) })}
			f, addr := testFront(t, tc, nil)
			begun <- f
			c := dialFront(t, addr)
			br := bufio.NewReader(c)
			for i, closes := range []bool{false, true} {
				sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				resp, _ := readAnswer(t, br, "GET")
				if resp.StatusCode != 200 || resp.Close != closes {
					t.Errorf("answer %d: status %d, close %v, want %v", i, resp.StatusCode, resp.Close, closes)
				}
				waitUntil(t, "the exchange has finished", func() bool { return tc.finished.Load() == int64(i+1) })
			}
		})
	}
}

// From the beginning of a drain on, answers end their connections, and new ones
// are still taken: when the delay is over nobody is about to send on an idle one.
func TestDrainDelay(t *testing.T) {
	port := testrig.FreePort(t)
	p := startProxy(t, routing.Config{
		Listeners: []routing.Listener{{Key: "ns/g/http", Gateway: "ns/g", Port: port, Protocol: routing.ProtocolHTTP}},
		Routes: []routing.Route{{Key: "HTTPRoute/ns/r", Listeners: []routing.Attachment{{Listener: "ns/g/http"}}, Rules: []routing.Rule{{
			Filters: []routing.Filter{{Redirect: &routing.RedirectFilter{Hostname: "elsewhere", Status: 302}}},
		}}}},
	}, port, func(o *Options) { o.Settings.ShutdownDrainDelay = 500 * time.Millisecond })
	ask := func(c net.Conn, r *bufio.Reader) bool {
		t.Helper()
		sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		response, _ := readAnswer(t, r, "GET")
		return response.Close
	}
	open := func() (net.Conn, *bufio.Reader) {
		t.Helper()
		c, err := net.Dial("tcp", p.Addr(port).String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c, bufio.NewReader(c)
	}
	kept, reader := open()
	if ask(kept, reader) {
		t.Error("the connection is ended before the drain")
	}
	drained := make(chan error, 1)
	go func() { drained <- p.Drain(t.Context()) }()
	waitUntil(t, "the drain has begun", func() bool { return !p.Ready() })
	if fresh, freshReader := open(); !ask(kept, reader) || !ask(fresh, freshReader) {
		t.Error("an answer within the delay does not end its connection")
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// TestDrainWakesLate: a drain claims an idle connection, a request comes, and
// only then the drain's wake-up does. The request does not suffer from it,
// whether it is its head that is waited for or its body.
func TestDrainWakesLate(t *testing.T) {
	f, addr := testFront(t, &testCore{answer: echoCore}, nil)
	c := dialFront(t, addr)
	br := bufio.NewReader(c)
	sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	readAnswer(t, br, "GET")
	var conn *clientConn
	f.conns.each(func(c *clientConn) { conn = c })
	for _, framing := range []string{"Content-Length: 5\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n5\r\n"} {
		for _, piece := range []string{"POST /x HTTP/1.1\r\nHost: a\r\n", framing, "hel", "lo"} {
			sendRaw(t, c, piece)
			time.Sleep(5 * time.Millisecond)
			_ = conn.raw.SetReadDeadline(longAgo)
		}
		if framing[0] == 'T' {
			sendRaw(t, c, "\r\n0\r\n\r\n")
		}
		if resp, body := readAnswer(t, br, "POST"); resp.StatusCode != 200 || !strings.HasSuffix(body, "hello") {
			t.Fatalf("%q: %d %q", framing, resp.StatusCode, body)
		}
	}
}
