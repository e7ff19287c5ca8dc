package fastproxy

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// stallEngine answers as the path says: a few bytes, many, or a stream of them.
func stallEngine(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch r.URL.Path {
	case "/big":
		w.Header().Set("Content-Length", "200000")
		w.Write(make([]byte, 200_000))
	case "/stream":
		for range 50 {
			if _, err := io.WriteString(w, strings.Repeat("data\n", 1000)); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	case "/trailer":
		w.Header().Set("Trailer", "X-End")
		io.WriteString(w, "few")
		w.Header().Set("X-End", "1")
	case "/x":
		w.Write(body)
	default:
		io.WriteString(w, "few")
	}
}

// TestH2NoWindow: 1,000 streams and more whose client gives no window for their
// answers, on connections that it keeps: each ends within the time-out for
// writes, whoever made its answer, and nothing of them stays.
func TestH2NoWindow(t *testing.T) {
	p, fronts := stormProxy(t, http.HandlerFunc(stallEngine), func(o *Options) { o.Timeouts.WriteStall = 500 * time.Millisecond })
	tooMuch := repeated(300, "x-a", strings.Repeat("v", 300))
	kinds := []struct {
		name   string
		path   string
		fields []string
	}{
		{"small", "/small", nil}, {"big", "/big", nil}, {"stream", "/stream", nil}, {"trailer", "/trailer", nil},
		{"refused by the gate", "/x", []string{"host", "elsewhere.test"}}, {"refused by net/http", "/x", tooMuch},
	}
	for _, f := range h2Fronts(fronts) {
		before := watchResources(t)
		var clients []*stormClient
		for _, k := range kinds {
			c := dialStorm(t, f.url, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			c.watch()
			for range http2Streams {
				c.openSplit(c.encode("GET", k.path, k.fields...))
			}
			clients = append(clients, c)
		}
		for i, c := range clients {
			awaitOutcomes(t, f.name+" "+kinds[i].name, c, "reset")
			if !c.alive() {
				t.Errorf("%s %s: the connection is gone: GOAWAY %s, %v", f.name, kinds[i].name, c.code(), c.failed)
			}
		}
		eventually(t, "the ledger is zero", func() bool { return p.loads() == 0 })
		eventually(t, "the goroutines of the streams are gone", func() bool { return runtime.NumGoroutine() < before.goroutines+100 })
		for _, c := range clients {
			c.conn.Close()
		}
		before.check(t, p)
	}
}

// awaitOutcomes waits until every stream has ended in the one way.
func awaitOutcomes(t *testing.T, what string, c *stormClient, want ...string) {
	t.Helper()
	var counts map[string]int
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		counts = map[string]int{}
		c.outcomes(counts)
		if counts[""] == 0 || time.Now().After(end) {
			break
		}
	}
	for _, w := range want {
		delete(counts, w)
	}
	if len(counts) > 0 {
		t.Errorf("%s: outcomes %v besides %v", what, counts, want)
	}
}

// alive says whether the server still answers a PING.
func (c *stormClient) alive() bool {
	pings := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.frames[http2.FramePing]
	}
	before := pings()
	if !c.send(c.framer.WritePing(false, [8]byte{'a'})) {
		return false
	}
	for range 500 {
		if pings() > before {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// TestH2StalledUploads: 1,000 uploads that stop in the middle, on connections that
// go on: each ends within the time-out for bodies, whether its body is streamed or
// read whole, and nothing of them stays.
func TestH2StalledUploads(t *testing.T) {
	for _, strategy := range []routing.Strategy{routing.StrategyLeastLoaded, routing.StrategyPrefix} {
		t.Run(string(strategy), func(t *testing.T) {
			port := testrig.FreePort(t)
			cfg := oneModel(port, strategy, startEngine(t, http.HandlerFunc(stallEngine)))
			p := startProxy(t, cfg, port, func(o *Options) { o.Timeouts.Body = 500 * time.Millisecond })
			for _, f := range h2Fronts(everyFront(t, p)) {
				stalledUploads(t, p, f)
			}
		})
	}
}

func stalledUploads(t *testing.T, p *proxy, f protocolFront) {
	before := watchResources(t)
	stop := bystander(t, f)
	var clients []*stormClient
	for n := range 4 {
		c := dialStorm(t, f.url)
		c.watch()
		for i := range http2Streams {
			fields := []string{"content-type", "application/json"}
			if (n+i)%2 == 0 {
				fields = append(fields, "content-length", "100000")
			}
			id := c.open("POST", "/v1/chat/completions", false, fields...)
			c.send(c.framer.WriteData(id, false, []byte(`{"messages":[`)))
		}
		clients = append(clients, c)
	}
	for _, c := range clients {
		awaitOutcomes(t, f.name, c, "408", "reset")
		if !c.alive() {
			t.Errorf("%s: the connection is gone: GOAWAY %s, %v", f.name, c.code(), c.failed)
		}
	}
	stop()
	eventually(t, "ledger and body budget are zero", func() bool { return p.loads() == 0 && p.bodies.used.Load() == 0 })
	eventually(t, "the goroutines of the streams are gone", func() bool { return runtime.NumGoroutine() < before.goroutines+100 })
	for _, c := range clients {
		c.conn.Close()
	}
	f.client.CloseIdleConnections()
	before.check(t, p)
}
