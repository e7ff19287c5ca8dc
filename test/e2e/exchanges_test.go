package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/hostile"
)

// The beginning of an upload reaches its engine while the rest is still to come,
// and an upload that ends early never looks complete: the engine sees no request,
// its client no answer but a refusal.
func TestTruncatedUpload(t *testing.T) {
	t.Parallel()
	e := startRawEngine(t, okAnswer)
	g := serveRaw(t, e)
	for _, framing := range []struct{ head, part, begin string }{
		{"Content-Length: 100000\r\n\r\n", strings.Repeat("x", 50_000), "x"},
		{"Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n", "hello"},
		{"Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\n", "hello"},
	} {
		for _, host := range []string{"a.test", "whole"} {
			c, err := net.Dial("tcp", g.host)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience)) // a connection that takes none fails below
			if _, err := io.WriteString(c, strings.Replace(hostile.PostHead, "a.test", host, 1)+framing.head); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, framing.part); err != nil {
				t.Fatal(err)
			}
			if host == "a.test" {
				eventually(t, "the engine gets the beginning", func() bool {
					e.mu.Lock()
					defer e.mu.Unlock()
					return strings.HasPrefix(e.raw.String(), "POST /p HTTP/1.1\r\n") && strings.Contains(e.raw.String(), "\r\n"+framing.begin)
				})
			}
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			all, _ := io.ReadAll(c)
			if strings.Contains(string(all), " 200 ") {
				t.Errorf("%q to %s: answered with %q", framing.head, host, all)
			}
			eventually(t, "nothing runs", func() bool { return total(g.scrape(), "flexinfer_proxy_active_connections") == 0 })
			if raw, requests, _ := e.take(); len(requests) > 0 || host == "whole" && raw != "" {
				t.Errorf("%q to %s: the engine got %.100q as %d requests", framing.head, host, raw, len(requests))
			}
		}
	}
}

// A client that asks whether to send its body is told no by the answer itself,
// and yes by nothing else than 100.
func TestExpectIsRefusedWithoutContinue(t *testing.T) {
	t.Parallel()
	e := startRawEngine(t, okAnswer)
	g := serveRaw(t, e, "--max-body-bytes", "1000")
	refused := func(head string, want int) {
		t.Helper()
		_, r, resp, _ := talk(t, g, head+"Expect: 100-continue\r\nContent-Length: 5000\r\n\r\n")
		if resp.StatusCode != want || !resp.Close {
			t.Errorf("%q: %s, close %v", head, resp.Status, resp.Close)
		}
		if more, _ := io.ReadAll(r); len(more) > 0 {
			t.Errorf("%q: then %q", head, more)
		}
	}
	refused("POST /p HTTP/1.1\r\nHost: whole\r\n", http.StatusRequestEntityTooLarge)
	refused("OPTIONS * HTTP/1.1\r\nHost: whole\r\n", http.StatusNotFound)
	if raw, _, _ := e.take(); raw != "" {
		t.Errorf("the engine got %q", raw)
	}
	continued := func(head string) {
		t.Helper()
		c, err := net.Dial("tcp", g.host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience)) // a connection that takes none fails below
		if _, err := io.WriteString(c, head+"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != http.StatusContinue {
			t.Fatalf("%q: %v", head, err)
		}
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Fatal(err)
		}
		if resp, err = http.ReadResponse(r, nil); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%q: %v", head, err)
		}
		if _, requests, _ := e.take(); len(requests) != 1 || !strings.HasSuffix(requests[0], " hello") {
			t.Errorf("%q: the engine got %q", head, requests)
		}
	}
	continued(hostile.PostHead)
	continued("POST /p HTTP/1.1\r\nHost: whole\r\n")
}

// An answer of unknown length reaches an HTTP/1.0 client without chunks, ended by
// the connection; one that breaks off is reset, because nothing else would tell.
func TestStreamToHTTP10(t *testing.T) {
	t.Parallel()
	const stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nb\r\ndata: one\n\n\r\n"
	f := func(rest, want string, cut bool) {
		t.Helper()
		e := startRawEngine(t, stream)
		e.rest = rest
		g := serveRaw(t, e)
		for _, keep := range []string{"", "Connection: keep-alive\r\n"} {
			c, err := net.Dial("tcp", g.host)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience)) // a connection that takes none fails below
			if _, err := io.WriteString(c, "GET /p HTTP/1.0\r\nHost: a.test\r\n"+keep+"\r\n"); err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(c)
			head, body, _ := strings.Cut(string(all), "\r\n\r\n")
			if strings.Contains(head, "chunked") || strings.Contains(head, "keep-alive") || body != want || (err != nil) != cut {
				t.Errorf("%q: got %q, %v", keep, all, err)
			}
		}
	}
	f("0\r\n\r\n", "data: one\n\n", false)
	f("zz\r\n", "data: one\n\n", true)
}

// Kept connections do not keep the largest body they have carried.
func TestBodiesAreNotRetained(t *testing.T) {
	t.Parallel()
	e := startRawEngine(t, okAnswer)
	g := serveRaw(t, e, "--pprof", "--log-level", "info")
	before := g.resources()
	for _, host := range []string{"a.test", "whole"} {
		for range 20 {
			body := strings.Repeat("x", 5<<20)
			head := fmt.Sprintf("POST /p HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", host, len(body))
			if _, _, resp, _ := talk(t, g, head+body); resp.StatusCode != http.StatusOK || resp.Close {
				t.Errorf("%s: %s, close %v", host, resp.Status, resp.Close)
			}
			e.take()
		}
	}
	if open := total(g.scrape(), "flexinfer_proxy_client_connections"); open < 40 {
		t.Errorf("only %v connections are open", open)
	}
	now := g.resources()
	t.Logf("40 connections that have carried 5 MB each: %.0f bytes of heap, %.0f before", now.heap, before.heap)
	if now.heap > before.heap+16<<20 {
		t.Errorf("the heap grew from %.0f to %.0f bytes", before.heap, now.heap)
	}
}
