package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What the load of a test consists of.
const (
	loadRequests = 20_000
	loadStreams  = 50
	loadTunnels  = 20
	loadThinkers = 40 // clients that leave their connections idle between requests
)

// load is clients of every protocol that send requests, read long streams and
// talk through WebSockets until over is closed. Whatever goes wrong for one of
// them fails the test.
type load struct {
	t      *testing.T
	fronts []loadFront
	// dial connects to the HTTP listener, for the WebSockets.
	dial func(ctx context.Context) (net.Conn, error)
	// before is called in front of each request, and what it returns with the
	// answer; nil: nothing is.
	before func() (answered func(*http.Response))
	over   chan struct{}
	pace   time.Duration // the pause of a busy client between two requests

	clients                  sync.WaitGroup
	requests, events, echoes atomic.Int64
	slowest                  atomic.Int64 // nanoseconds
	failures                 atomic.Int64
}

// loadFront is a client of one protocol.
type loadFront struct {
	name, url string
	client    *http.Client
}

// dialer connects to a listener: "http" or "https".
type dialer func(ctx context.Context, listener string) (net.Conn, error)

// loadFronts are clients of HTTP/1.1 and HTTP/2, in the clear and over TLS, and
// one that keeps no connection.
func loadFronts(t *testing.T, dial dialer) []loadFront {
	front := func(name, listener string, http2, keep bool) loadFront {
		var p http.Protocols
		p.SetHTTP1(!http2)
		p.SetHTTP2(http2 && listener == "https")
		p.SetUnencryptedHTTP2(http2 && listener == "http")
		transport := &http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, listener) },
			TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // its certificates are the test's own
			Protocols:           &p,
			DisableCompression:  true,
			DisableKeepAlives:   !keep,
			MaxIdleConnsPerHost: 256,
		}
		t.Cleanup(transport.CloseIdleConnections)
		return loadFront{name, listener + "://gateway.test", &http.Client{Transport: transport}}
	}
	return []loadFront{
		front("HTTP/1.1", "http", false, true),
		front("HTTP/2 in the clear", "http", true, true),
		front("HTTP/1.1 over TLS", "https", false, true),
		front("HTTP/2 over TLS", "https", true, true),
		front("HTTP/1.1 without keep-alive", "http", false, false),
	}
}

// loadEngine answers with the request's body; /stream sends events until over is
// closed, and then "[DONE]"; /tunnel is a WebSocket that echoes.
func loadEngine(t *testing.T, name string, over <-chan struct{}) string {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Engine", name)
		switch r.URL.Path {
		case "/stream":
			streamUntil(w, over)
		case "/tunnel":
			if c, rw, err := http.NewResponseController(w).Hijack(); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				_, _ = io.Copy(c, rw)
				_ = c.Close()
			}
		default:
			_, _ = io.Copy(w, r.Body)
		}
	}))
	t.Cleanup(engine.Close)
	return engine.Listener.Addr().String()
}

func streamUntil(w http.ResponseWriter, over <-chan struct{}) {
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		if _, err := fmt.Fprintf(w, "data: %d\n\n", i); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-over:
			_, _ = io.WriteString(w, "data: [DONE]\n\n")
			return
		}
	}
}

// begin starts every client and waits until all streams and WebSockets are open.
func (l *load) begin() {
	l.t.Helper()
	l.t.Cleanup(l.finish) // where the test fails in between
	ready := make(chan struct{}, loadStreams+loadTunnels)
	for n := range loadStreams {
		l.clients.Go(func() { l.stream(n, ready) })
	}
	for n := range loadTunnels {
		l.clients.Go(func() { l.tunnel(n, ready) })
	}
	eventually(l.t, "the streams and WebSockets begin", func() bool {
		if l.t.Failed() {
			l.t.FailNow()
		}
		return len(ready) == cap(ready)
	})
	for n := range 2 * len(l.fronts) {
		l.clients.Go(func() { l.ask(n, l.pace) })
	}
	for n := range loadThinkers {
		l.clients.Go(func() { l.ask(n, 400*time.Millisecond) })
	}
}

// end ends the streams and WebSockets in the middle of the requests, and then all.
func (l *load) end() {
	l.t.Helper()
	eventually(l.t, "all requests are sent", func() bool { return l.requests.Load() >= loadRequests || l.t.Failed() })
	l.finish()
	l.t.Logf("%d requests (slowest %v), %d events of %d streams, %d echoes of %d WebSockets",
		l.requests.Load(), time.Duration(l.slowest.Load()).Round(time.Millisecond), l.events.Load(), loadStreams, l.echoes.Load(), loadTunnels)
}

// finish ends every client. Idempotent.
func (l *load) finish() {
	if !l.isOver() {
		close(l.over)
	}
	l.clients.Wait()
	for _, f := range l.fronts {
		f.client.CloseIdleConnections()
	}
}

// fail reports what went wrong for a client, the first times.
func (l *load) fail(format string, args ...any) {
	if l.failures.Add(1) <= 20 {
		l.t.Errorf(format, args...)
	}
}

// isOver says whether the load has come to its end.
func (l *load) isOver() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// ask sends requests, each up to 2*pause after the last.
func (l *load) ask(n int, pause time.Duration) {
	f := &l.fronts[n%len(l.fronts)]
	for i := 0; !l.isOver(); i++ {
		body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d/%d"}]}`, n, i)
		answered := func(*http.Response) {}
		if l.before != nil {
			answered = l.before()
		}
		begun := time.Now()
		resp, got, err := f.post("/v1/chat/completions", body)
		if err != nil || resp.StatusCode != http.StatusOK || got != body {
			l.fail("%s, request %d/%d: %v %q %v", f.name, n, i, status(resp), got, err)
			return
		}
		answered(resp)
		l.requests.Add(1)
		took := int64(time.Since(begun))
		for most := l.slowest.Load(); took > most && !l.slowest.CompareAndSwap(most, took); most = l.slowest.Load() {
		}
		if pause > 0 {
			time.Sleep(rand.N(2 * pause))
		}
	}
}

func status(r *http.Response) string {
	if r == nil {
		return "no answer"
	}
	return r.Status
}

// post sends a JSON body and reads the answer.
func (f *loadFront) post(path, body string) (*http.Response, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp, string(got), err
}

// stream reads one answer that lasts until the load is over.
func (l *load) stream(n int, ready chan<- struct{}) {
	f := &l.fronts[n%len(l.fronts)]
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/stream", strings.NewReader(`{"stream":true}`))
	if err != nil {
		l.fail("stream %d: %v", n, err)
		return
	}
	resp, err := f.client.Do(req)
	if err != nil {
		l.fail("%s, stream %d: %v", f.name, n, err)
		return
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for i := 0; lines.Scan(); {
		switch line := lines.Text(); {
		case line == "":
			continue
		case line == "data: [DONE]" && l.isOver():
			return
		case line != fmt.Sprintf("data: %d", i):
			l.fail("%s, stream %d: event %d is %q", f.name, n, i, line)
			return
		}
		if i == 0 {
			ready <- struct{}{}
		}
		i++
		l.events.Add(1)
	}
	l.fail("%s, stream %d was cut: %v", f.name, n, lines.Err())
}

// tunnel talks through a WebSocket.
func (l *load) tunnel(n int, ready chan<- struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := l.dial(ctx)
	if err != nil {
		l.fail("WebSocket %d: %v", n, err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * patience)) // a connection that takes none fails below
	_, _ = io.WriteString(conn, "GET /tunnel HTTP/1.1\r\nHost: gateway.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		l.fail("WebSocket %d: %v %v", n, status(resp), err)
		return
	}
	defer resp.Body.Close()
	ready <- struct{}{}
	for i := 0; !l.isOver(); i++ {
		message := bytes.Repeat([]byte{byte('a' + i%26)}, 1+(i*37)%3000)
		got := make([]byte, len(message))
		_, _ = conn.Write(message) // a lost one is missed at once
		if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, message) {
			l.fail("WebSocket %d was cut at message %d: %v", n, i, err)
			return
		}
		l.echoes.Add(1)
		time.Sleep(20 * time.Millisecond)
	}
}
