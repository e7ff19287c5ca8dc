//go:build !race

package fastproxy

import (
	"io"
	"net"
	"testing"
)

// TestH1Allocs holds that a request over a real connection, through fasthttp's
// loop, costs the front no allocation; client and server are both counted.
func TestH1Allocs(t *testing.T) {
	var streaming bool
	sink := make([]byte, 64) // one exchange at a time
	event := []byte("data: {\"token\":\"x\"}\n\n")
	body := []byte(`{"ok":true}`)
	tc := &testCore{answer: func(x *exchange) {
		if x.req.body.Whole() == nil {
			for {
				if _, err := x.req.body.Read(sink); err != nil {
					break
				}
			}
		}
		x.resp.header.SetStatusCode(200)
		x.resp.header.SetContentType("application/json")
		if streaming {
			x.resp.stream, x.resp.length = true, -1
			return
		}
		x.resp.body = body
	}, stream: func(_ *exchange, w flushWriter) (n int64, err error) {
		for range 10 {
			m, err := w.Write(event)
			if n += int64(m); err == nil {
				err = w.Flush()
			}
			if err != nil {
				return n, err
			}
		}
		return n, nil
	}}
	_, addr := testFront(t, tc, nil)
	f := func(name, request string, stream bool, end string) {
		t.Helper()
		streaming = stream
		c := dialFront(t, addr)
		raw, tail := []byte(request), []byte(end)
		buf := make([]byte, 64<<10)
		allocs := testing.AllocsPerRun(500, func() {
			if _, err := c.Write(raw); err != nil {
				t.Fatal(err)
			}
			readUntil(t, c, buf, tail)
		})
		t.Logf("%s: %v allocations", name, allocs)
		if allocs != 0 {
			t.Errorf("%s: %v allocations a request, want 0", name, allocs)
		}
	}
	const head = " /v1/chat/completions?x=y HTTP/1.1\r\nHost: API.example:80\r\nUser-Agent: t\r\nAccept: */*\r\nX-Session-ID: abc\r\n"
	const post = "POST" + head + "Content-Type: application/json\r\n"
	f("GET", "GET"+head+"\r\n", false, `{"ok":true}`)
	f("GET, path to be canonicalised", "GET /a/%2e./b"+head[len(" /v1/chat/completions"):]+"\r\n", false, `{"ok":true}`)
	f("POST", post+"Content-Length: 10\r\n\r\n0123456789", false, `{"ok":true}`)
	f("POST, chunked", post+"Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n", false, `{"ok":true}`)
	f("stream", post+"Content-Length: 10\r\n\r\n0123456789", true, "\r\n0\r\n\r\n")
}

// readUntil reads from c until what came ends in tail.
func readUntil(t testing.TB, c net.Conn, buf, tail []byte) {
	n := 0
	for n < len(tail) || string(buf[n-len(tail):n]) != string(tail) {
		m, err := c.Read(buf[n:])
		if err == io.EOF || m == 0 {
			t.Fatalf("ended after %q: %v", buf[:n], err)
		}
		n += m
	}
}
