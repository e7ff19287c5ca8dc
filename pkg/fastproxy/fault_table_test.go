package fastproxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// fault is one way in which an engine goes wrong, or only unusual, and what
// every client must get then, whatever protocol it speaks.
type fault struct {
	name   string
	engine func(*net.TCPConn, int) bool
	// address, where it is set, stands for an engine that is not there.
	address func(*testing.T) string
	method  string // POST where it is empty
	status  int
	body    string // whole, or for a cut answer what must have come before the cut
	cut     bool
	trailer string // X-Trailer
	interim bool   // a 103 comes first
}

const (
	ok200    = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	chunked  = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	someData = "a\r\ndata: one\n\r\n"
)

var faults = []fault{
	{name: "healthy", engine: says(ok200), status: 200, body: "ok"},
	{name: "refuses", address: refusingAddress, status: 503, body: "service_unavailable"},
	{name: "never takes connections", address: deafAddress, status: 503, body: "service_unavailable"},
	{name: "hangs", engine: func(c *net.TCPConn, _ int) bool { c.Read(make([]byte, 1)); return false }, status: 504, body: `"timeout"`},
	{name: "500 at once", engine: says("HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\ndead"), status: 500, body: "dead"},
	{name: "closes without an answer", engine: saysAndEnds("", false), status: 502, body: "bad_gateway"},
	{name: "resets without an answer", engine: saysAndEnds("", true), status: 502, body: "bad_gateway"},
	{name: "ends within the head", engine: saysAndEnds("HTTP/1.1 200 OK\r\nContent-Le", false), status: 502, body: "bad_gateway"},
	{name: "no HTTP", engine: saysAndEnds("SSH-2.0-OpenSSH_9.2\r\n", false), status: 502, body: "bad_gateway"},
	{name: "two lengths", engine: saysAndEnds("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!", false), status: 502, body: "bad_gateway"},
	{name: "endless head", engine: endlessHead, status: 502, body: "bad_gateway"},

	{name: "short of its length", engine: saysAndEnds("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", false), status: 200, body: "short", cut: true},
	{name: "reset within its length", engine: late("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", true), status: 200, body: "short", cut: true},
	{name: "stream ends between chunks", engine: saysAndEnds(chunked+someData, false), status: 200, body: "data: one\n", cut: true},
	{name: "stream ends within a chunk", engine: saysAndEnds(chunked+someData+"64\r\ndata: tw", false), status: 200, body: "data: one\ndata: tw", cut: true},
	{name: "stream ends before its last line", engine: saysAndEnds(chunked+someData+"0\r\n", false), status: 200, body: "data: one\n", cut: true},
	{name: "stream is reset", engine: late(chunked+someData, true), status: 200, body: "data: one\n", cut: true},
	{name: "stream stops", engine: func(c *net.TCPConn, _ int) bool {
		io.WriteString(c, chunked+someData)
		c.Read(make([]byte, 1))
		return false
	}, status: 200, body: "data: one\n", cut: true},
	{name: "broken chunk", engine: saysAndEnds(chunked+someData+"zz\r\nno", false), status: 200, body: "data: one\n", cut: true},

	{name: "no length, ends", engine: saysAndEnds("HTTP/1.1 200 OK\r\n\r\nto the end", false), status: 200, body: "to the end"},
	{name: "no length, HTTP/1.0", engine: saysAndEnds("HTTP/1.0 200 OK\r\n\r\nto the end", false), status: 200, body: "to the end"},
	{name: "no length, reset", engine: late("HTTP/1.1 200 OK\r\n\r\nto the", true), status: 200, body: "to the", cut: true},
	{name: "last event without a blank line", engine: says(chunked + someData + "9\r\ndata: two\r\n0\r\n\r\n"), status: 200, body: "data: one\ndata: two"},
	{name: "comments first", engine: says(chunked + "2\r\n:\n\r\n" + someData + "0\r\n\r\n"), status: 200, body: ":\ndata: one\n"},
	{name: "trailers", engine: says("HTTP/1.1 200 OK\r\nTrailer: X-Trailer\r\nTransfer-Encoding: chunked\r\n\r\n" + someData + "0\r\nX-Trailer: there\r\n\r\n"),
		status: 200, body: "data: one\n", trailer: "there"},
	{name: "103 first", engine: says("HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n" + ok200), status: 200, body: "ok", interim: true},
	{name: "100 nobody asked for", engine: says("HTTP/1.1 100 Continue\r\n\r\n" + ok200), status: 200, body: "ok"},
	{name: "surplus bytes", engine: says(ok200 + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON"), status: 200, body: "ok"},
	{name: "surplus after the last chunk", engine: says(chunked + someData + "0\r\n\r\nPOISON"), status: 200, body: "data: one\n"},
	{name: "body on a HEAD", engine: says(ok200), method: "HEAD", status: 200},
	{name: "body on a 204", engine: says("HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\nPOISON"), status: 204},
	{name: "answers and closes", engine: saysAndEnds(ok200, false), status: 200, body: "ok"},
	{name: "answers, says so and closes", engine: saysAndEnds("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", true), status: 200, body: "ok"},
}

// late is saysAndEnds with a moment between: what a reset overtakes in the
// kernel never reached the gateway.
func late(text string, reset bool) func(*net.TCPConn, int) bool {
	return func(c *net.TCPConn, n int) bool {
		io.WriteString(c, text)
		time.Sleep(30 * time.Millisecond)
		return saysAndEnds("", reset)(c, n)
	}
}

func endlessHead(c *net.TCPConn, _ int) bool {
	io.WriteString(c, "HTTP/1.1 200 OK\r\n")
	for i := range 1 << 16 {
		if _, err := fmt.Fprintf(c, "X-Field-%d: %s\r\n", i, strings.Repeat("x", 100)); err != nil {
			return false
		}
	}
	return false
}

func refusingAddress(t *testing.T) string { return fmt.Sprintf("127.0.0.1:%d", testrig.FreePort(t)) }

// TestFaults: each fault gives the outcome that the contract names over every
// protocol, three times in a row, and leaves nothing in the ledgers.
func TestFaults(t *testing.T) {
	for _, c := range faults {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var engine *faultEngine
			var address string
			if c.address != nil {
				address = c.address(t)
			} else {
				engine = startFaultEngine(t, c.engine)
				address = engine.address
			}
			port := testrig.FreePort(t)
			p := startProxy(t, oneModel(port, routing.StrategyDefault, address), port, func(o *Options) {
				// Short, because some faults take all of them; long enough for a busy machine.
				o.Timeouts.Connect = time.Second
				o.Timeouts.FirstByte = time.Second
				o.Timeouts.Idle = time.Second
			})
			asked := int64(0)
			for _, f := range everyFront(t, p) {
				for i := range 3 {
					asked++
					c.check(t, fmt.Sprintf("%s, request %d", f.name, i), &f)
				}
			}
			eventually(t, "the ledger is back at zero", func() bool { return p.loads() == 0 })
			// A kept connection that is closed in the very instant of a write
			// may be tried once more; no engine here closes one it has kept.
			if engine != nil && engine.requests.Load() != asked {
				t.Errorf("%d requests reached the engine, %d were asked", engine.requests.Load(), asked)
			}
		})
	}
}

// check asks once and compares.
func (c *fault) check(t *testing.T, what string, f *protocolFront) {
	t.Helper()
	method, interim := c.method, 0
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, f.url+"/v1/chat/completions", strings.NewReader(chat))
	if err != nil {
		t.Fatal(err)
	}
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code == 103 && h.Get("Link") != "" {
				interim++
			} else {
				t.Errorf("%s: interim answer %d %v", what, code, h)
			}
			return nil
		},
	}))
	resp, err := f.client.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != c.status {
		t.Fatalf("%s: status %d %q, want %d", what, resp.StatusCode, body, c.status)
	}
	if cut := err != nil; cut != c.cut {
		t.Errorf("%s: body %q ends with %v, want a cut: %v", what, body, err, c.cut)
	}
	own := c.status >= 502
	if own && !strings.Contains(string(body), c.body) || !own && string(body) != c.body {
		t.Errorf("%s: body %q, want %q", what, body, c.body)
	}
	if own != (resp.Header.Get("Content-Type") == "application/json") {
		t.Errorf("%s: %v", what, resp.Header)
	}
	if c.status == 503 && resp.Header.Get("Retry-After") == "" {
		t.Errorf("%s: no Retry-After", what)
	}
	if got := resp.Trailer.Get("X-Trailer"); got != c.trailer {
		t.Errorf("%s: trailer %q, want %q", what, got, c.trailer)
	}
	if (interim == 1) != c.interim {
		t.Errorf("%s: %d interim answers", what, interim)
	}
}

// TestFaultEarly413: an unfinished upload of 20 MB gets the 413 that the engine
// gave after its first bytes, streamed through and buffered whole by the
// gateway, over every protocol.
func TestFaultEarly413(t *testing.T) {
	for _, c := range []struct {
		name     string
		strategy routing.Strategy
	}{{"streamed", routing.StrategyDefault}, {"whole", routing.StrategyPrefix}} {
		t.Run(c.name, func(t *testing.T) {
			e := startRawEngine(t, func(c *net.TCPConn, _ int) {
				io.ReadFull(c, make([]byte, 4096))
				io.WriteString(c, early413)
			})
			port := testrig.FreePort(t)
			p := startProxy(t, oneModel(port, c.strategy, e.address), port, nil)
			body := append([]byte(`{"messages":[{"role":"user","content":"`), bytes.Repeat([]byte("x"), 20<<20)...)
			body = append(body, `"}]}`...)
			for _, f := range everyFront(t, p) {
				for range 3 {
					resp, err := f.client.Post(f.url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
					if err != nil {
						t.Fatalf("%s: %v", f.name, err)
					}
					b, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if resp.StatusCode != 413 || string(b) != "big" || err != nil {
						t.Fatalf("%s: %d %q %v", f.name, resp.StatusCode, b, err)
					}
				}
			}
			eventually(t, "the ledger and the budget are back at zero", func() bool { return p.loads() == 0 && p.bodies.used.Load() == 0 })
		})
	}
}
