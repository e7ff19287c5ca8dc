package fastproxy

import (
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// stormScale multiplies the counts of the HTTP/2 storms: H2_STORM=10 for a long
// look.
func stormScale(n int) int {
	if k, err := strconv.Atoi(os.Getenv("H2_STORM")); err == nil && k > 0 {
		return n * k
	}
	return scaled(n)
}

// countingEngine holds each request for a while and echoes its body; it counts
// them, and the most at one time.
type countingEngine struct {
	hold                 time.Duration
	begun, running, most atomic.Int64
}

func (e *countingEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.begun.Add(1)
	n := e.running.Add(1)
	defer e.running.Add(-1)
	for old := e.most.Load(); n > old && !e.most.CompareAndSwap(old, n); old = e.most.Load() {
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if e.hold > 0 && r.Header.Get("X-Hold") != "" {
		select {
		case <-r.Context().Done():
		case <-time.After(e.hold):
		}
	}
	w.Write(b)
}

// stormProxy is a proxy with every front before one engine.
func stormProxy(t *testing.T, engine http.Handler, edit func(*Options)) (*proxy, []protocolFront) {
	t.Helper()
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyLeastLoaded, startEngine(t, engine)), port, func(o *Options) {
		o.Timeouts.Connect = time.Minute // a storm, and the engine in this very process, may take a machine of its own
		if edit != nil {
			edit(o)
		}
	})
	return p, everyFront(t, p)
}

// bystander sends requests as it should, one after the other, until stop is
// called; each must get its own answer.
func bystander(t *testing.T, f protocolFront) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var wg sync.WaitGroup
	var answers int
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			body := "bystander " + strconv.Itoa(i)
			resp, err := f.client.Post(f.url+"/x", "text/plain", strings.NewReader(body))
			if err != nil {
				t.Errorf("%s: %v", f.name, err)
				return
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 200 || string(got) != body {
				t.Errorf("%s: %s: %d %q %v", f.name, body, resp.StatusCode, got, err)
				return
			}
			answers++
		}
	})
	var once sync.Once
	stop = func() {
		once.Do(func() {
			close(done)
			wg.Wait()
			if answers == 0 {
				t.Errorf("%s: the bystander got no answer", f.name)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// mostGoroutines samples how many there are until stop, which returns the most.
func mostGoroutines() (stop func() int) {
	done, most := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			n = max(n, runtime.NumGoroutine())
			select {
			case <-done:
				most <- n
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() int { close(done); return <-most }
}

// TestH2RapidResets: requests that are reset at once, 20,000 over connection
// after connection: none gets further than a connection's share of resets, the
// goroutines stay within a connection's streams, the engine sees few of them, the
// others get their answers, and nothing is left over.
func TestH2RapidResets(t *testing.T) {
	engine := &countingEngine{hold: 50 * time.Millisecond}
	p, fronts := stormProxy(t, engine, nil)
	for _, f := range h2Fronts(fronts) {
		t.Run(f.name, func(t *testing.T) { rapidResets(t, p, engine, f) })
	}
}

func rapidResets(t *testing.T, p *proxy, engine *countingEngine, f protocolFront) {
	before := watchResources(t)
	stop := bystander(t, f)
	most := mostGoroutines()
	base := runtime.NumGoroutine()
	begun := engine.begun.Load()
	rnd := rand.New(rand.NewPCG(1, 2))
	total, sent, conns, longest := stormScale(20_000), 0, 0, 0
	for sent < total && conns < total {
		c := dialStorm(t, f.url)
		c.watch()
		conns++
		n := 0
		for ; n < total; n++ {
			id := c.open("GET", "/x", true, "x-hold", "1")
			if rnd.IntN(4) == 0 {
				time.Sleep(time.Duration(rnd.IntN(200)) * time.Microsecond)
			}
			if id == 0 || !c.reset(id) {
				break
			}
		}
		sent, longest = sent+n, max(longest, n)
		c.conn.Close()
	}
	peak := most() - base
	stop()
	seen := engine.begun.Load() - begun
	t.Logf("%d resets over %d connections, at most %d on one; %d requests at the engine; %d more goroutines", sent, conns, longest, seen, peak)
	if total >= 20_000 && conns < 2 {
		t.Errorf("one connection could reset %d streams", sent)
	}
	// Engine and proxy share this process: a request takes one goroutine in
	// each, the client's connection and its engine's connections a few more.
	if most := 8*http2Streams + 100; peak > most {
		t.Errorf("%d goroutines more than before, want at most %d", peak, most)
	}
	eventually(t, "the ledger is zero", func() bool { return p.loads() == 0 && engine.running.Load() == 0 })
	f.client.CloseIdleConnections()
	before.check(t, p)
}

// TestH2SlowResetsAllowed: a client that gives up streams, even many, keeps its
// connection while it lets others come to their end.
func TestH2SlowResetsAllowed(t *testing.T) {
	engine := &countingEngine{hold: 5 * time.Second}
	p, fronts := stormProxy(t, engine, nil)
	c := dialStorm(t, h2Fronts(fronts)[0].url)
	c.watch()
	for i := range hastyResets + 50 {
		for range 2 {
			id := c.open("GET", "/x", true)
			eventually(t, "a request is answered", func() bool { return c.over(id) != "" })
			if got := c.over(id); got != "200" {
				t.Fatalf("round %d: %s", i, got)
			}
		}
		before := engine.begun.Load()
		id := c.open("GET", "/x", true, "x-hold", "1")
		if i%10 == 0 {
			eventually(t, "the engine has it", func() bool { return engine.begun.Load() > before })
		}
		if !c.reset(id) {
			t.Fatalf("round %d: the connection is gone: %v", i, c.failed)
		}
	}
	if n := p.front.counters.refused.count("stream_resets"); n != 0 {
		t.Errorf("%d connections were ended", n)
	}
	eventually(t, "the ledger is zero", func() bool { return p.loads() == 0 })
}

// TestH2ManyStreams: 10,000 streams, on one connection as many at a time as it
// allows, and over 100 connections 1,000 at a time: each gets its own answer.
func TestH2ManyStreams(t *testing.T) {
	engine := &countingEngine{}
	p, fronts := stormProxy(t, engine, nil)
	for _, f := range h2Fronts(fronts) {
		for _, conns := range []int{1, 100} {
			t.Run(f.name+"/"+strconv.Itoa(conns), func(t *testing.T) {
				engine.most.Store(0)
				manyStreams(t, f, conns, stormScale(10_000))
				if most := engine.most.Load(); conns == 1 && most > http2Streams {
					t.Errorf("%d at a time at the engine, a connection may have %d streams", most, http2Streams)
				}
			})
		}
	}
	eventually(t, "the ledger is zero", func() bool { return p.loads() == 0 })
}

func manyStreams(t *testing.T, f protocolFront, conns, total int) {
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for n := range conns {
		wg.Go(func() {
			tr := f.client.Transport.(*http.Transport).Clone()
			defer tr.CloseIdleConnections()
			client := &http.Client{Transport: tr, Timeout: 60 * time.Second}
			var streams sync.WaitGroup
			atATime := make(chan struct{}, max(http2Streams/conns, 10))
			for i := range total / conns {
				atATime <- struct{}{}
				streams.Go(func() {
					defer func() { <-atATime }()
					askForEcho(t, client, f.url, strconv.Itoa(n)+"/"+strconv.Itoa(i))
				})
			}
			streams.Wait()
		})
	}
	wg.Wait()
	f.client.CloseIdleConnections()
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before+3*http2Streams })
}

func askForEcho(t *testing.T, client *http.Client, url, body string) {
	resp, err := client.Post(url+"/x", "text/plain", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || string(got) != body {
		t.Errorf("%s: %d %q %v", body, resp.StatusCode, got, err)
	}
}
