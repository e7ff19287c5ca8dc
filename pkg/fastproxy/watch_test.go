package fastproxy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"
)

// TestClientGone measures how fast an exchange learns that its client has left,
// before the first byte of its answer and in the middle of it.
func TestClientGone(t *testing.T) {
	const tries = 50
	waiting := make(chan struct{}, 1)
	gone := make(chan time.Time, 1)
	wait := func(x *exchange) {
		waiting <- struct{}{}
		for begun := time.Now(); !x.slot.gone.Load(); runtime.Gosched() {
			if time.Since(begun) > 10*time.Second {
				gone <- time.Time{}
				return
			}
		}
		gone <- time.Now()
	}
	tc := &testCore{
		answer: func(x *exchange) {
			x.resp.header.SetStatusCode(200)
			if string(x.req.path) == "/before" {
				wait(x)
				return
			}
			x.resp.stream, x.resp.length = true, -1
		},
		stream: func(x *exchange, w flushWriter) (int64, error) {
			_, _ = io.WriteString(w, "event")
			_ = w.Flush()
			wait(x)
			return 5, errClientGone
		},
	}
	f := func(name, addr, path string, connect func(path string) (leave func())) {
		t.Helper()
		var took []time.Duration
		for range tries {
			leave := connect(path)
			<-waiting
			begun := time.Now()
			leave()
			at := <-gone
			if at.IsZero() {
				t.Fatalf("%s %s: the exchange did not learn it in 10 s", name, path)
			}
			took = append(took, at.Sub(begun))
		}
		slices.Sort(took)
		t.Logf("%-12s %-7s median %v, worst of %d %v", name, path, took[tries/2], tries, took[tries-1])
		if took[tries/2] > 100*time.Millisecond {
			t.Errorf("%s %s: median %v, want at most 100 ms", name, path, took[tries/2])
		}
	}
	_, addr := testFront(t, tc, nil)
	request := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n" }
	h2 := func(client *http.Client, url string) func(path string) func() {
		return func(path string) func() {
			ctx, cancel := context.WithCancel(context.Background())
			req, _ := http.NewRequestWithContext(ctx, "GET", url+path, nil)
			go func() {
				if resp, err := client.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}()
			return cancel
		}
	}
	for _, path := range []string{"/before", "/within"} {
		f("TCP", addr, path, func(path string) func() {
			c := dialFront(t, addr)
			sendRaw(t, c, request(path))
			return func() { _ = c.Close() }
		})
		f("TCP reset", addr, path, func(path string) func() {
			c := dialFront(t, addr)
			sendRaw(t, c, request(path))
			return func() { _ = c.SetLinger(0); _ = c.Close() }
		})
		f("half-close", addr, path, func(path string) func() {
			c := dialFront(t, addr)
			sendRaw(t, c, request(path))
			return func() { _ = c.CloseWrite() }
		})
		f("pipelined", addr, path, func(path string) func() {
			c := dialFront(t, addr)
			sendRaw(t, c, request(path)+request(path))
			return func() { _ = c.Close() }
		})
		f("h2c stream", addr, path, h2(h2cClient(t), "http://"+addr))
	}
	secure := &testCore{answer: tc.answer, stream: tc.stream}
	socket, pool := tlsSocket(t, "a.example")
	secure.socket.Store(socket)
	_, tlsAddr := testFront(t, secure, nil)
	config := &tls.Config{RootCAs: pool, ServerName: "a.example"}
	tr := &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	for _, path := range []string{"/before", "/within"} {
		f("TLS", tlsAddr, path, func(path string) func() {
			c, err := tls.Dial("tcp", tlsAddr, config)
			if err != nil {
				t.Fatal(err)
			}
			sendRaw(t, c, request(path))
			return func() { _ = c.Close() }
		})
		f("TLS h2", tlsAddr, path, h2(&http.Client{Transport: tr}, "https://"+tlsAddr))
		f("h2 conn", tlsAddr, path, func(path string) func() {
			conns := make(chan net.Conn, 1)
			own := &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true,
				DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
					conns <- c
					return c, err
				}}
			go func() {
				if resp, err := (&http.Client{Transport: own}).Get("https://" + tlsAddr + path); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}()
			c := <-conns
			return func() { _ = c.Close() }
		})
	}
}
