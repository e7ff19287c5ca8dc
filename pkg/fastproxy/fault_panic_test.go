package fastproxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// panickyBody is a request's body that panics after its first bytes.
type panickyBody struct{ requestBody }

func (b *panickyBody) Whole() []byte { return nil }

func (b *panickyBody) Read(p []byte) (int, error) {
	if len(p) > 3 {
		p = p[:3]
	}
	if n, err := b.requestBody.Read(p); err != nil || n < 3 {
		return n, err
	}
	panic("injected: body")
}

// panickyWriter is a client that panics when it is written to.
type panickyWriter struct{ flushWriter }

func (panickyWriter) Write([]byte) (int, error) { panic("injected: answer") }

// panicAt makes the stations of p panic for requests whose X-Panic names them.
func panicAt(p *proxy) {
	core := &p.front.core
	stages := map[string]func(x *exchange) bool{
		"listener": (*exchange).chooseListener, "model": (*exchange).readModel, "match": (*exchange).match,
		"backend": (*exchange).chooseBackend, "plan": (*exchange).planBody,
		"filter": func(x *exchange) bool { x.outgoing(); return true },
		"pick":   (*exchange).decide,
		"try":    func(x *exchange) bool { return x.try() == nil },
	}
	order := []string{"listener", "model", "match", "backend", "plan", "filter", "pick", "try"}
	core.serve = func(x *exchange) {
		at := string(x.req.header.Peek("X-Panic"))
		if at == "body" {
			x.req.body = &panickyBody{x.req.body}
		}
		if stages[at] == nil {
			x.serve()
			return
		}
		x.begin()
		for _, name := range order {
			if !stages[name](x) {
				return
			}
			if name == at {
				panic("injected: " + name)
			}
		}
	}
	stream, finish, tunnel := core.stream, core.finish, core.tunnel
	core.stream = func(x *exchange, w flushWriter) (int64, error) {
		if string(x.req.header.Peek("X-Panic")) == "answer" {
			w = panickyWriter{w}
		}
		return stream(x, w)
	}
	core.finish = func(x *exchange) {
		at := string(x.req.header.Peek("X-Panic"))
		finish(x)
		if at == "finish" {
			panic("injected: finish")
		}
	}
	core.tunnel = func(x *exchange, c net.Conn, b []byte) {
		if string(x.req.header.Peek("X-Panic")) == "upgrade" {
			panic("injected: upgrade")
		}
		tunnel(x, c, b)
	}
}

// TestPanicsEndOneConnection: a panic anywhere in an exchange ends that exchange
// and at most its connection; all others, on the same ports and engines, go on,
// and every counter returns to zero.
func TestPanicsEndOneConnection(t *testing.T) {
	engine := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			if c, rw, err := w.(http.Hijacker).Hijack(); err == nil {
				io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				io.Copy(c, rw)
				c.Close()
			}
			return
		}
		b, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/stream" {
			http.NewResponseController(w).Flush()
			pause := 2 * time.Millisecond
			if r.Header.Get("X-Panic") != "" {
				pause = 300 * time.Millisecond // the gateway must see head and body apart
			}
			time.Sleep(pause)
		}
		w.Write(b)
	}))
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyLeastLoaded, engine)
	p := startProxy(t, cfg, port, nil)
	panicAt(p)
	before := watchResources(t)
	fronts := everyFront(t, p)
	stop := make(chan struct{})
	var served atomic.Int64
	var others sync.WaitGroup
	for i := range 8 {
		f := fronts[i%len(fronts)]
		others.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				body := fmt.Sprintf(`{"model":"m","n":"%d/%d"}`, i, n)
				resp, err := f.client.Post(f.url+"/stream", "application/json", strings.NewReader(body))
				if err != nil {
					t.Errorf("%s: %v", f.name, err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(got) != body {
					t.Errorf("%s: %d %q %v", f.name, resp.StatusCode, got, err)
					return
				}
				served.Add(1)
			}
		})
	}
	panics := int64(0)
	for _, f := range fronts {
		for _, at := range []string{"listener", "model", "match", "backend", "plan", "filter", "pick", "try", "body", "answer", "finish", "upgrade"} {
			for range 3 {
				if at == "upgrade" {
					if f.name != "http1" {
						continue
					}
					panickedUpgrade(t, p)
				} else {
					panicked(t, &f, at)
				}
				panics++
			}
		}
	}
	close(stop)
	others.Wait()
	if n := p.front.counters.panics.Load(); n != panics {
		t.Errorf("%d panics counted, %d injected", n, panics)
	}
	t.Logf("%d panics beside %d requests", panics, served.Load())
	eventually(t, "the ledgers are zero", func() bool { return p.loads() == 0 && p.bodies.used.Load() == 0 })
	for _, f := range fronts {
		f.client.CloseIdleConnections()
	}
	eventually(t, "no client connection is left", func() bool { return p.front.counters.open.Load() == 0 })
	before.check(t, p)
}

// panicked asks for a panic at a station: 500, or a cut answer where the head is
// out already, and whole where all of it was.
func panicked(t *testing.T, f *protocolFront, at string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	const body = `{"model":"m","messages":[]}`
	req, err := http.NewRequestWithContext(ctx, "POST", f.url+"/stream", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Panic", at)
	resp, err := f.client.Do(req)
	if err != nil {
		t.Errorf("%s, %s: %v", f.name, at, err)
		return
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	switch at {
	case "answer":
		if err == nil {
			t.Errorf("%s, %s: %d %q does not look cut", f.name, at, resp.StatusCode, got)
		}
	case "finish":
		if err != nil || string(got) != body {
			t.Errorf("%s, %s: %q %v", f.name, at, got, err)
		}
	default:
		if err != nil || resp.StatusCode != 500 || strings.Contains(string(got), "injected") {
			t.Errorf("%s, %s: %d %q %v", f.name, at, resp.StatusCode, got, err)
		}
	}
}

// panickedUpgrade asks for a panic in a tunnel: it ends after its head.
func panickedUpgrade(t *testing.T, p *proxy) {
	t.Helper()
	c := rawClient(t, p)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nX-Panic: upgrade\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Errorf("upgrade: %v %v", resp, err)
		return
	}
	if rest, err := io.ReadAll(r); len(rest) > 0 || err != nil && !isReset(err) {
		t.Errorf("upgrade: %q %v", rest, err)
	}
}
