package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/hostile"
	"flexinfer.ai/gateway/internal/testrig"
)

// rawEngine keeps the requests that reach it, and every byte.
type rawEngine struct {
	address string
	// answer is what it sends for a request, rest what follows a moment later.
	answer, rest string

	mu       sync.Mutex
	raw      bytes.Buffer
	requests []string // "target host body"
	broken   error    // what was no whole request
}

func startRawEngine(t *testing.T, answer string) *rawEngine {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &rawEngine{address: l.Addr().String(), answer: answer}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				e.serve(c)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close() }) // its connections end with the gateway
	return e
}

func (e *rawEngine) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.raw.Write(p)
}

func (e *rawEngine) serve(c net.Conn) {
	r := bufio.NewReader(io.TeeReader(c, e))
	for {
		q, err := http.ReadRequest(r)
		var body []byte
		if err == nil {
			body, err = io.ReadAll(q.Body)
		}
		e.mu.Lock()
		if err != nil {
			var network net.Error
			if !errors.Is(err, io.EOF) && !errors.As(err, &network) {
				e.broken = err
			}
			e.mu.Unlock()
			return
		}
		e.requests = append(e.requests, q.RequestURI+" "+q.Host+" "+string(body))
		e.mu.Unlock()
		if _, err := io.WriteString(c, e.answer); err != nil {
			return
		}
		if e.rest == "" {
			continue
		}
		time.Sleep(50 * time.Millisecond)
		if _, err := io.WriteString(c, e.rest); err != nil {
			return
		}
	}
}

// take returns what has come since the last call.
func (e *rawEngine) take() (raw string, requests []string, broken error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	raw, requests, broken = e.raw.String(), e.requests, e.broken
	e.raw.Reset()
	e.requests, e.broken = nil, nil
	return raw, requests, broken
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// serveRaw serves the Models "streamed", for every host but one, and "whole", for
// that one, by one engine.
func serveRaw(t *testing.T, e *rawEngine, flags ...string) *gateway {
	t.Helper()
	at := replica{e.address, true}
	return serve(t, map[string]string{"all.yaml": gatewayYAML +
		modelYAML("streamed", nil) + serviceYAML(t, "streamed", at) + modelYAML("whole", strategy("prefix")) + serviceYAML(t, "whole", at) +
		strings.Replace(modelRouteYAML("streamed", "x", "streamed"), `  hostnames: ["x"]`+"\n", "", 1) + modelRouteYAML("whole", "whole", "whole")}, flags...)
}

// talk sends raw and reads the answer and, where that ends the connection, what
// follows it.
func talk(t *testing.T, g *gateway, raw string) (c net.Conn, r *bufio.Reader, resp *http.Response, body string) {
	t.Helper()
	c, err := net.Dial("tcp", g.host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience)) // a connection that takes none fails below
	go func() { _, _ = io.WriteString(c, raw) }()
	r = bufio.NewReader(c)
	resp, err = http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("%.200q: %v", raw, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%.200q: %v", raw, err)
	}
	return c, r, resp, string(b)
}

// TestHostileRequests sends every row of the table to the program: what is
// ambiguous is refused and never forwarded, what is not arrives as one request,
// and the next one on its connection as the next.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	e := startRawEngine(t, okAnswer)
	g := serveRaw(t, e)
	for _, host := range []string{"a.test", "whole"} {
		for _, h := range hostile.Requests {
			h.Raw, h.Host = strings.ReplaceAll(h.Raw, "a.test", host), strings.ReplaceAll(h.Host, "a.test", host)
			t.Run(host+"/"+h.Name, func(t *testing.T) { checkHostile(t, g, e, &h) })
		}
	}
	if total(g.scrape(), "flexinfer_proxy_client_panics_total") != 0 {
		t.Error("a request made the gateway panic")
	}
}

func checkHostile(t *testing.T, g *gateway, e *rawEngine, h *hostile.Request) {
	t.Helper()
	c, r, resp, _ := talk(t, g, h.Raw)
	if resp.StatusCode != h.Status {
		t.Fatalf("status %d, want %d", resp.StatusCode, h.Status)
	}
	if h.Status != http.StatusOK {
		if more, _ := io.ReadAll(r); !resp.Close || len(more) > 0 {
			t.Errorf("the connection goes on after the refusal: close %v, %q", resp.Close, more)
		}
		raw, requests, broken := e.take()
		if len(requests) > 0 || broken != nil && !errors.Is(broken, io.ErrUnexpectedEOF) || strings.Contains(raw, "smuggled") {
			t.Errorf("the engine got %q (%d requests, %v)", raw, len(requests), broken)
		}
		return
	}
	if _, err := io.WriteString(c, "GET /after HTTP/1.1\r\nHost: after.test\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the next request: %v", err)
	}
	raw, requests, broken := e.take()
	want := []string{h.Target + " " + h.Host + " " + h.Body, "/after after.test "}
	if broken != nil && !errors.Is(broken, io.ErrUnexpectedEOF) || strings.Join(requests, "|") != strings.Join(want, "|") {
		t.Errorf("the engine got %q: %q (%v), want %q", raw, requests, broken, want)
	}
}

// slowClients are clients that take their time, and what becomes of them. Their
// answer is refused where status is 0: they are cut off without one.
var slowClients = []struct {
	name      string
	first     string // sent at once
	trickle   string // then a byte at a time, over and over
	tls       bool
	status    int
	says      string // in the answer's body
	soon      bool   // cut off at once
	continues bool   // 100 Continue comes first
}{
	{name: "silent"},
	{name: "silent in the TLS handshake", tls: true},
	{name: "slow in the TLS handshake", first: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", trickle: "\x00", tls: true},
	{name: "no TLS in the TLS handshake", first: "GET / HT", trickle: "T", tls: true, soon: true},
	{name: "slow request line", first: "GE", trickle: "T", status: 408, says: "header block took too long"},
	{name: "slow head", first: hostile.GetHead, trickle: "X-Slow: y\r\n", status: 408, says: "header block took too long"},
	{name: "head that stops", first: hostile.GetHead + "X-Half", status: 408, says: "header block took too long"},
	{name: "second head that stops", first: "\r\n\r\nGET ", status: 408, says: "header block took too long"},
	{name: "slow HTTP/2 preface", first: "PRI * HTTP/2.0\r\n", status: 408, says: "header block took too long"},
	{name: "body that stops", first: hostile.PostHead + "Content-Length: 1000\r\n\r\n{", status: 408, says: "request_timeout"},
	{name: "body that stops, read whole", first: "POST /p HTTP/1.1\r\nHost: whole\r\nContent-Length: 1000\r\n\r\n{", status: 408, says: "request_timeout"},
	{name: "chunks that stop", first: hostile.PostHead + "Transfer-Encoding: chunked\r\n\r\n5\r\nab", status: 408, says: "request_timeout"},
	{name: "chunk extension that does not end", first: hostile.PostHead + "Transfer-Encoding: chunked\r\n\r\n5;" + strings.Repeat("x", 10_000), trickle: "x", status: 400, says: "invalid", soon: true},
	{name: "body that is not sent after 100 Continue", first: hostile.PostHead + "Expect: 100-continue\r\nContent-Length: 10\r\n\r\n", status: 408, says: "request_timeout", continues: true},
}

// TestSlowClients: clients that hold a connection without getting on are told why
// and cut off in time, ten of each kind at once, and harm nobody else.
func TestSlowClients(t *testing.T) { // beside other tests their own slowness would count
	e := startRawEngine(t, okAnswer)
	at := replica{e.address, true}
	secure := int(testrig.FreePort(t))
	yaml := twoListenersYAML(map[string]int{"http": 0, "https": secure}, "")
	g := serve(t, map[string]string{"all.yaml": strings.Replace(yaml, "port: 0,", "port: %PORT%,", 1) + secretYAML(t) +
		modelYAML("m", nil) + serviceYAML(t, "m", at) + anyRouteYAML +
		modelYAML("whole", strategy("prefix")) + serviceYAML(t, "whole", at) + modelRouteYAML("whole", "whole", "whole")},
		"--header-timeout", "2s", "--body-timeout", "2s", "--handshake-timeout", "2s", "--log-level", "info")
	over := make(chan struct{})
	var others, slow sync.WaitGroup
	others.Go(func() { behave(t, g, over) })
	for i := range slowClients {
		for range 10 {
			slow.Go(func() { holdOn(t, g, secure, i) })
		}
	}
	slow.Wait()
	close(over)
	others.Wait()
	eventually(t, "their connections are gone", func() bool {
		return total(g.scrape(), "flexinfer_proxy_client_connections") <= 2 && total(g.scrape(), "flexinfer_proxy_active_connections") == 0
	})
	if failed := total(g.scrape(), "flexinfer_proxy_client_tls_failures_total"); failed != 30 {
		t.Errorf("%v TLS handshakes failed, want 30", failed)
	}
}

// behave sends requests as others do until over is closed: all are answered.
func behave(t *testing.T, g *gateway, over <-chan struct{}) {
	n, slowest := 0, time.Duration(0)
	for {
		begun := time.Now()
		a, err := g.try(request{host: "whole", body: []byte(coldBody)})
		if err != nil || a.status != http.StatusOK {
			t.Errorf("another client: %d %s %v", a.status, a.body, err)
			return
		}
		n, slowest = n+1, max(slowest, time.Since(begun))
		select {
		case <-over:
			t.Logf("%d requests of others, the slowest took %v", n, slowest.Round(time.Millisecond))
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// holdOn is one of the slow clients.
func holdOn(t *testing.T, g *gateway, secure, number int) {
	s := &slowClients[number]
	address := g.host
	if s.tls {
		address = fmt.Sprintf("127.0.0.1:%d", secure)
	}
	begun := time.Now()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Errorf("%s: %v", s.name, err)
		return
	}
	defer c.Close()
	_ = c.SetReadDeadline(begun.Add(patience)) // a connection that takes none fails below
	go trickle(c, s.first, s.trickle)
	all, err := io.ReadAll(c)
	took := time.Since(begun)
	text := string(all)
	if took > patience/2 || took < time.Second && !s.soon {
		t.Errorf("%s: cut off after %v", s.name, took)
	}
	if s.continues {
		rest, ok := strings.CutPrefix(text, "HTTP/1.1 100 Continue\r\n\r\n")
		if text = rest; !ok {
			t.Errorf("%s: got %q", s.name, all)
		}
	}
	switch {
	case s.status == 0:
		if strings.Contains(text, "HTTP/") {
			t.Errorf("%s: got %q", s.name, text)
		}
	case !strings.HasPrefix(text, fmt.Sprintf("HTTP/1.1 %d ", s.status)) || !strings.Contains(text, s.says) ||
		!strings.Contains(text, "Connection: close\r\n") || strings.Count(text, "HTTP/1.1") != 1:
		t.Errorf("%s: got %q, %v", s.name, text, err)
	}
}

// trickle writes first and then piece, byte by byte, until the connection ends.
func trickle(c net.Conn, first, piece string) {
	_, err := io.WriteString(c, first)
	for i := 0; err == nil && piece != ""; i++ {
		time.Sleep(20 * time.Millisecond)
		_, err = c.Write([]byte{piece[i%len(piece)]})
	}
}
