package fastproxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/pkg/routing"
)

// recordingEngine keeps every byte that reaches it, and the requests that
// net/http finds in them.
type recordingEngine struct {
	*rawEngine
	live     atomic.Int64 // connections
	mu       sync.Mutex
	raw      bytes.Buffer
	requests []recordedRequest
	broken   error // the first message that net/http does not read
}

type recordedRequest struct {
	method, target, host, body string
	header                     http.Header
}

// Write implements io.Writer for what is received.
func (e *recordingEngine) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.raw.Write(p)
}

func startRecordingEngine(t testing.TB) *recordingEngine {
	e := &recordingEngine{}
	e.rawEngine = startRawEngine(t, func(c *net.TCPConn, _ int) {
		e.live.Add(1)
		defer e.live.Add(-1)
		r := bufio.NewReader(io.TeeReader(c, e))
		for {
			q, err := http.ReadRequest(r)
			var body []byte
			if err == nil {
				body, err = io.ReadAll(q.Body)
			}
			if err != nil {
				e.note(err)
				return
			}
			e.mu.Lock()
			e.requests = append(e.requests, recordedRequest{q.Method, q.RequestURI, q.Host, string(body), q.Header})
			e.mu.Unlock()
			io.WriteString(c, ok200)
		}
	})
	return e
}

// note keeps an error that is not the end of a connection.
func (e *recordingEngine) note(err error) {
	var network net.Error
	if err == io.EOF || errors.As(err, &network) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.broken = err
}

// take returns what has been recorded and forgets it, once the engine has seen
// the end of every connection that p gave up.
func (e *recordingEngine) take(t testing.TB, p *proxy) (raw string, requests []recordedRequest, broken error) {
	t.Helper()
	pool := poolOf(p.snapshot().Backend("Model/ns/m").Ready[0])
	eventually(t, "both ends know the same connections", func() bool {
		open, idle := pool.counts()
		return open == idle && e.live.Load() == int64(open)
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	raw, requests, broken = e.raw.String(), e.requests, e.broken
	e.raw.Reset()
	e.requests, e.broken = nil, nil
	return raw, requests, broken
}

// hostile is one raw input and what becomes of it: refused with status, or
// forwarded as exactly the request named.
type hostile struct {
	name, raw          string
	status             int
	target, host, body string // where status is 200
}

const (
	smuggled = "GET /smuggled HTTP/1.1\r\nHost: evil\r\n\r\n"
	postHead = "POST /p HTTP/1.1\r\nHost: a.test\r\n"
	getHead  = "GET /p HTTP/1.1\r\nHost: a.test\r\n"
)

// hostiles are the rows of what an HTTP library lets through, or only answers
// by itself, and a proxy must not: whatever two parsers could read differently.
var hostiles = []hostile{
	{name: "two equal lengths", raw: postHead + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello" + smuggled, status: 400},
	{name: "two lengths", raw: postHead + "Content-Length: 0\r\nContent-Length: 43\r\n\r\n" + smuggled, status: 400},
	{name: "list of lengths", raw: postHead + "Content-Length: 2, 2\r\n\r\nok", status: 400},
	{name: "signed length", raw: postHead + "Content-Length: +2\r\n\r\nok", status: 400},
	{name: "length overflow", raw: postHead + "Content-Length: 18446744073709551616\r\n\r\n" + smuggled, status: 400},
	{name: "empty length", raw: postHead + "Content-Length:\r\n\r\n" + smuggled, status: 400},
	{name: "length and chunks", raw: postHead + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, status: 400},
	{name: "chunks and length", raw: postHead + "Transfer-Encoding: chunked\r\nContent-Length: 48\r\n\r\n0\r\n\r\n" + smuggled, status: 400},
	{name: "identity", raw: postHead + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nok", status: 501},
	{name: "chunked, identity", raw: postHead + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", status: 501},
	{name: "gzip, chunked", raw: postHead + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", status: 501},
	{name: "two codings", raw: postHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "coding, space before the colon", raw: postHead + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + smuggled, status: 400},
	{name: "coding after VT", raw: postHead + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + smuggled, status: 400},
	{name: "coding in a name with a space", raw: postHead + "Transfer-Encoding x: chunked\r\nContent-Length: 0\r\n\r\n" + smuggled, status: 400},
	{name: "coding folded", raw: postHead + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + smuggled, status: 400},
	{name: "coding in HTTP/1.0", raw: "POST /p HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, status: 400},

	{name: "bare LF after a field", raw: "GET /p HTTP/1.1\r\nHost: a\nX: b\r\n\r\n" + smuggled, status: 400},
	{name: "bare LF as the blank line", raw: "GET /p HTTP/1.1\r\nHost: a\r\n\n" + smuggled, status: 400},
	{name: "bare LF everywhere", raw: strings.ReplaceAll(getHead+"\r\n"+smuggled, "\r\n", "\n") + "\r\n\r\n", status: 400},
	{name: "bare CR in a value", raw: getHead + "X: a\rTransfer-Encoding: chunked\r\n\r\n", status: 400},
	{name: "NUL in a value", raw: getHead + "X: a\x00b\r\n\r\n", status: 400},
	{name: "fold", raw: getHead + "X: a\r\n b\r\n\r\n", status: 400},
	{name: "name with a space", raw: getHead + "Foo Bar: x\r\n\r\n", status: 400},
	{name: "no colon", raw: getHead + "Foo\r\n\r\n", status: 400},

	{name: "no Host", raw: "GET /p HTTP/1.1\r\n\r\n", status: 400},
	{name: "two Hosts", raw: getHead + "Host: b.test\r\n\r\n", status: 400},
	{name: "userinfo in Host", raw: "GET /p HTTP/1.1\r\nHost: u:p@a\r\n\r\n", status: 400},
	{name: "quotes in Host", raw: "GET /p HTTP/1.1\r\nHost: a<>\"'\r\n\r\n", status: 400},
	{name: "path in Host", raw: "GET /p HTTP/1.1\r\nHost: a/b\r\n\r\n", status: 400},
	{name: "userinfo in the target", raw: "GET http://u:p@a/x HTTP/1.1\r\nHost: a\r\n\r\n", status: 400},

	{name: "HTTP/1.2", raw: "GET /p HTTP/1.2\r\nHost: a\r\n\r\n", status: 505},
	{name: "HTTP/2.0", raw: "GET /p HTTP/2.0\r\nHost: a\r\n\r\n", status: 505},
	{name: "HTTP/3.7", raw: "GET /p HTTP/3.7\r\nHost: a\r\n\r\n", status: 505},
	{name: "HTTP/0.9", raw: "GET /p\r\n\r\n", status: 400},
	{name: "CONNECT", raw: "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", status: 405},
	{name: "space in the target", raw: "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", status: 400},
	{name: "control byte in the target", raw: "GET /a\x01b HTTP/1.1\r\nHost: a\r\n\r\n", status: 400},
	{name: "target without a slash", raw: "GET p HTTP/1.1\r\nHost: a\r\n\r\n", status: 400},
	{name: "upgrade and close", raw: getHead + "Connection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n", status: 400},
	{name: "other expectation", raw: postHead + "Expect: 200-ok\r\nContent-Length: 2\r\n\r\nok", status: 417},
	{name: "too many fields", raw: getHead + strings.Repeat("X: y\r\n", maxFields+1) + "\r\n", status: 431},
	{name: "header block too large", raw: getHead + "X: " + strings.Repeat("y", 70<<10) + "\r\n\r\n", status: 431},
	{name: "target too large", raw: "GET /" + strings.Repeat("y", 70<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", status: 414},

	{name: "chunk size in C", raw: postHead + "Transfer-Encoding: chunked\r\n\r\n0x2\r\nok\r\n0\r\n\r\n", status: 400},
	{name: "negative chunk size", raw: postHead + "Transfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n", status: 400},
	{name: "chunk size overflow", raw: postHead + "Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\nok\r\n0\r\n\r\n", status: 400},
	{name: "chunk line ended by LF", raw: postHead + "Transfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n", status: 400},
	{name: "space before the extension", raw: postHead + "Transfer-Encoding: chunked\r\n\r\n3 ;x\r\nabc\r\n0\r\n\r\n", status: 400},
	{name: "chunk longer than its size", raw: postHead + "Transfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n", status: 400},
	{name: "chunk extension flood", raw: postHead + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 1<<20) + "\r\nok\r\n0\r\n\r\n", status: 400},

	{name: "double slash is a path", raw: "GET //x://y/z HTTP/1.1\r\nHost: a.test\r\n\r\n", status: 200, target: "//x://y/z", host: "a.test"},
	{name: "absolute form beats Host", raw: "GET http://b.test:81/x?y HTTP/1.1\r\nHost: a.test\r\n\r\n", status: 200, target: "/x?y", host: "b.test:81"},
	{name: "encoded slash and empty query", raw: "GET /a%2Fb/../c? HTTP/1.1\r\nHost: a.test\r\n\r\n", status: 200, target: "/a%2Fb/../c?", host: "a.test"},
	{name: "8 bit in the target", raw: "GET /\xc3\xa9 HTTP/1.1\r\nHost: a.test\r\n\r\n", status: 200, target: "/\xc3\xa9", host: "a.test"},
	{name: "length", raw: postHead + "Content-Length: 5\r\n\r\nhello", status: 200, target: "/p", host: "a.test", body: "hello"},
	{name: "a request as the body", raw: postHead + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(smuggled), smuggled), status: 200, target: "/p", host: "a.test", body: smuggled},
	{name: "chunks", raw: postHead + "Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", status: 200, target: "/p", host: "a.test", body: "hello"},
	{name: "a request in chunks", raw: postHead + fmt.Sprintf("Transfer-Encoding: CHUNKED\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(smuggled), smuggled), status: 200, target: "/p", host: "a.test", body: smuggled},
	{name: "trailers are dropped", raw: postHead + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\nContent-Length: 9\r\n\r\n", status: 200, target: "/p", host: "a.test", body: "ok"},
	{name: "framing named by Connection", raw: postHead + "Connection: Content-Length, Host\r\nContent-Length: 5\r\n\r\nhello", status: 200, target: "/p", host: "a.test", body: "hello"},
	{name: "body of a GET", raw: getHead + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(smuggled), smuggled), status: 200, target: "/p", host: "a.test", body: smuggled},
	{name: "empty lines first", raw: "\r\n\r\n" + getHead + "\r\n", status: 200, target: "/p", host: "a.test"},
	{name: "HTTP/1.0", raw: "GET /p HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n", status: 200, target: "/p", host: "a.test"},
	{name: "h2c upgrade is ignored", raw: getHead + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", status: 200, target: "/p", host: "a.test"},
}

// TestHostileRequests sends each input through the whole data plane, at once and
// cut at random places, to streamed and to buffered routes. What is refused
// leaves not one byte at the engine, but for the head of a message whose chunks
// turn bad behind it; what is forwarded arrives as one request, the next one on
// the same connection as the next.
func TestHostileRequests(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, strategy := range []routing.Strategy{routing.StrategyDefault, routing.StrategyPrefix} {
		e := startRecordingEngine(t)
		port := freePort(t)
		p := startProxy(t, oneModel(port, strategy, e.address), port, nil)
		for _, c := range hostiles {
			t.Run(string(strategy)+"/"+c.name, func(t *testing.T) {
				for cuts := range 3 {
					c.check(t, p, e, cuts, rnd)
				}
			})
		}
		eventually(t, "the ledger is back at zero", func() bool { return p.loads() == 0 && p.bodies.used.Load() == 0 })
	}
}

// check sends the input in cuts+1 pieces.
func (h *hostile) check(t *testing.T, p *proxy, e *recordingEngine, cuts int, rnd *rand.Rand) {
	t.Helper()
	c := rawClient(t, p)
	defer c.Close()
	rest := h.raw
	for range cuts {
		n := rnd.IntN(min(len(rest), 400))
		io.WriteString(c, rest[:n])
		rest = rest[n:]
		time.Sleep(time.Millisecond)
	}
	go io.WriteString(c, rest)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != h.status {
		t.Fatalf("status %d, want %d", resp.StatusCode, h.status)
	}
	if h.status != 200 {
		if more, _ := io.ReadAll(r); !resp.Close || len(more) > 0 {
			t.Errorf("the connection goes on after the refusal: close %v, %q", resp.Close, more)
		}
		raw, requests, broken := e.take(t, p)
		if len(requests) > 0 || broken != nil && !errors.Is(broken, io.ErrUnexpectedEOF) || strings.Contains(raw, "smuggled") {
			t.Errorf("the engine got %q (%d requests, %v)", raw, len(requests), broken)
		}
		if raw != "" && !strings.Contains(h.raw, "Transfer-Encoding: chunked\r\n\r\n") {
			t.Errorf("a refused head reached the engine: %q", raw)
		}
		return
	}
	io.WriteString(c, "GET /after HTTP/1.1\r\nHost: after.test\r\nConnection: close\r\n\r\n")
	if resp, err = http.ReadResponse(r, nil); err != nil || resp.StatusCode != 200 {
		t.Fatalf("the next request: %v %v", resp, err)
	}
	raw, requests, broken := e.take(t, p)
	if len(requests) != 2 || broken != nil || requests[1].target != "/after" {
		t.Fatalf("the engine got %q: %+v, %v", raw, requests, broken)
	}
	got := requests[0]
	if got.target != h.target || got.host != h.host || got.body != h.body {
		t.Errorf("forwarded as %+v, want %s %s %q", got, h.target, h.host, h.body)
	}
	for _, name := range []string{"Trailer", "X-T", "Upgrade", "Http2-Settings", "Expect"} {
		if got.header.Get(name) != "" {
			t.Errorf("%s reached the engine", name)
		}
	}
}

// TestHostilePipelines: a thousand random sequences of harmless and hostile
// inputs in one stream. The engine sees exactly the harmless requests in front
// of the first hostile one, in order, and the client as many answers and one
// refusal.
func TestHostilePipelines(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	e := startRecordingEngine(t)
	port := freePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyDefault, e.address), port, nil)
	for range scaled(1000) {
		var stream strings.Builder
		var want []string
		refused := 0
		for i := 0; i < 8 && refused == 0; i++ {
			h := &hostiles[rnd.IntN(len(hostiles))]
			if len(h.raw) > 4<<10 || h.name == "HTTP/1.0" {
				continue
			}
			stream.WriteString(h.raw)
			if h.status == 200 {
				want = append(want, h.target+" "+h.body)
			} else {
				refused = h.status
			}
		}
		if stream.Len() == 0 {
			continue
		}
		pipeline(t, p, e, stream.String(), want, refused, rnd)
		if t.Failed() {
			return
		}
	}
}

func pipeline(t *testing.T, p *proxy, e *recordingEngine, stream string, want []string, refused int, rnd *rand.Rand) {
	t.Helper()
	c, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	at := rnd.IntN(len(stream))
	io.WriteString(c, stream[:at])
	time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
	io.WriteString(c, stream[at:])
	r := bufio.NewReader(c)
	for i := range want {
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%q: answer %d: %v %v", stream, i, resp, err)
		}
		io.Copy(io.Discard, resp.Body)
	}
	if refused != 0 {
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != refused {
			t.Fatalf("%q: %v %v, want %d", stream, resp, err, refused)
		}
		io.Copy(io.Discard, resp.Body)
		if more, _ := io.ReadAll(r); len(more) > 0 {
			t.Fatalf("%q: answered on with %q", stream, more)
		}
	}
	raw, requests, broken := e.take(t, p)
	var got []string
	for _, q := range requests {
		got = append(got, q.target+" "+q.body)
	}
	if strings.Join(got, "|") != strings.Join(want, "|") || broken != nil && !errors.Is(broken, io.ErrUnexpectedEOF) {
		t.Fatalf("%q became %q (%v), want %q", stream, raw, broken, want)
	}
}
