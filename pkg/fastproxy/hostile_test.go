package fastproxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/hostile"
	"flexinfer.ai/gateway/internal/testrig"
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
		port := testrig.FreePort(t)
		p := startProxy(t, oneModel(port, strategy, e.address), port, nil)
		for _, c := range hostile.Requests {
			t.Run(string(strategy)+"/"+c.Name, func(t *testing.T) {
				for cuts := range 3 {
					checkHostile(t, &c, p, e, cuts, rnd)
				}
			})
		}
		eventually(t, "the ledger is back at zero", func() bool { return p.loads() == 0 && p.bodies.used.Load() == 0 })
	}
}

// check sends the input in cuts+1 pieces.
func checkHostile(t *testing.T, h *hostile.Request, p *proxy, e *recordingEngine, cuts int, rnd *rand.Rand) {
	t.Helper()
	c := rawClient(t, p)
	defer c.Close()
	rest := h.Raw
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
	if resp.StatusCode != h.Status {
		t.Fatalf("status %d, want %d", resp.StatusCode, h.Status)
	}
	if h.Status != 200 {
		if more, _ := io.ReadAll(r); !resp.Close || len(more) > 0 {
			t.Errorf("the connection goes on after the refusal: close %v, %q", resp.Close, more)
		}
		raw, requests, broken := e.take(t, p)
		if len(requests) > 0 || broken != nil && !errors.Is(broken, io.ErrUnexpectedEOF) || strings.Contains(raw, "smuggled") {
			t.Errorf("the engine got %q (%d requests, %v)", raw, len(requests), broken)
		}
		if raw != "" && !strings.Contains(h.Raw, "Transfer-Encoding: chunked\r\n\r\n") {
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
	if got.target != h.Target || got.host != h.Host || got.body != h.Body {
		t.Errorf("forwarded as %+v, want %s %s %q", got, h.Target, h.Host, h.Body)
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
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyDefault, e.address), port, nil)
	for range scaled(1000) {
		var stream strings.Builder
		var want []string
		refused := 0
		for i := 0; i < 8 && refused == 0; i++ {
			h := &hostile.Requests[rnd.IntN(len(hostile.Requests))]
			if len(h.Raw) > 4<<10 || h.Name == "HTTP/1.0" {
				continue
			}
			stream.WriteString(h.Raw)
			if h.Status == 200 {
				want = append(want, h.Target+" "+h.Body)
			} else {
				refused = h.Status
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
