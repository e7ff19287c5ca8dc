package fastproxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/pkg/routing"
)

// testCore is a core for tests of the front: it answers by a function and
// counts what the front must balance.
type testCore struct {
	answer func(x *exchange)
	stream func(x *exchange, w flushWriter) (int64, error)
	tunnel func(x *exchange, client net.Conn, buffered []byte)
	trail  func(x *exchange, visit func(name, value []byte))
	socket atomic.Pointer[routing.Socket]
	finish func() // after each exchange; nil: nothing

	begun, finished atomic.Int64
}

func (tc *testCore) core() frontCore {
	pool := sync.Pool{New: func() any { return new(exchange) }}
	return frontCore{
		acquire: func() *exchange { tc.begun.Add(1); return pool.Get().(*exchange) },
		release: func(x *exchange) { pool.Put(x) },
		serve: func(x *exchange) {
			x.tunnel = false
			tc.answer(x)
		},
		stream: func(x *exchange, w flushWriter) (int64, error) { return tc.stream(x, w) },
		trailers: func(x *exchange, visit func(name, value []byte)) {
			if tc.trail != nil {
				tc.trail(x, visit)
			}
		},
		tunnel: func(x *exchange, c net.Conn, b []byte) { tc.tunnel(x, c, b) },
		finish: func(x *exchange) {
			tc.finished.Add(1)
			if tc.finish != nil {
				tc.finish()
			}
		},
		socket: func(uint16) *routing.Socket { return tc.socket.Load() },
	}
}

const testPort = 8000

// testFront starts a front on a free loopback port and returns it with its
// address. It is drained at the end of the test, and every exchange must have
// been finished by then.
func testFront(t testing.TB, tc *testCore, edit func(o *Options)) (*front, string) {
	t.Helper()
	o := Options{BindAddress: "127.0.0.1", Logger: slog.New(slog.DiscardHandler)}
	if edit != nil {
		edit(&o)
	}
	o = o.withDefaults()
	if tc.socket.Load() == nil {
		tc.socket.Store(&routing.Socket{Port: testPort})
	}
	f := newFrontOf(tc.core(), o)
	f.portOffset = freeFrontPort(t) - testPort
	if err := f.apply([]*routing.Socket{tc.socket.Load()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := f.drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
		if b, e := tc.begun.Load(), tc.finished.Load(); b != e {
			t.Errorf("%d exchanges begun, %d finished", b, e)
		}
		if n := f.counters.open.Load(); n != 0 {
			t.Errorf("%d connections still counted as open", n)
		}
	})
	return f, f.addr(testPort).String()
}

// freeFrontPort is a loopback port that was free a moment ago.
func freeFrontPort(t testing.TB) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// echoCore answers with what the core saw: a line of the request's parts, the
// fields, the body.
func echoCore(x *exchange) {
	var b bytes.Buffer
	r := &x.req
	fmt.Fprintf(&b, "%s|%s|%s|%s|%s|%s|%s|%s\n", r.method, r.target, r.path, r.query, r.matchPath, r.authority, r.host, r.upgrade)
	for name, value := range r.header.All() {
		fmt.Fprintf(&b, "%s=%s\n", name, value)
	}
	b.WriteByte('\n')
	_, err := io.Copy(&b, coreBody{r.body})
	if err != nil {
		x.resp.close = true
		x.resp.header.SetStatusCode(http.StatusBadRequest)
		x.resp.body = []byte(err.Error())
		return
	}
	x.resp.header.SetStatusCode(http.StatusOK)
	x.resp.header.SetContentType("text/plain")
	x.resp.body = b.Bytes()
}

type coreBody struct{ b requestBody }

func (r coreBody) Read(p []byte) (int, error) { return r.b.Read(p) }

// fixedCore answers 200 with body.
func fixedCore(body string) func(x *exchange) {
	b := []byte(body)
	return func(x *exchange) {
		x.resp.header.SetStatusCode(http.StatusOK)
		x.resp.body = b
	}
}

// dialFront connects, with a deadline for the whole test.
func dialFront(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func sendRaw(t testing.TB, c net.Conn, raw string) {
	t.Helper()
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
}

// readAnswer reads one answer to a request with the method.
func readAnswer(t testing.TB, br *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%d, body %q: %v", resp.StatusCode, body, err)
	}
	return resp, string(body)
}

// exchangeRaw sends raw on a connection of its own and returns all that comes
// back until the server closes.
func exchangeRaw(t testing.TB, addr, raw string) string {
	t.Helper()
	c := dialFront(t, addr)
	sendRaw(t, c, raw)
	all, err := io.ReadAll(c)
	if err != nil && len(all) == 0 {
		t.Fatal(err)
	}
	return string(all)
}

// waitUntil waits until ok, or fails.
func waitUntil(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("did not happen in 10 s: %s", what)
}

// statusOf is the status in a raw answer.
func statusOf(raw string) string {
	line, _, _ := strings.Cut(raw, "\r\n")
	parts := strings.SplitN(line, " ", 3)
	if len(parts) < 2 {
		return "none: " + line
	}
	return parts[1]
}
