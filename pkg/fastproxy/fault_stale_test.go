package fastproxy

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// TestStaleKeepAliveCostsNoError: over 20,000 requests through the whole proxy,
// over every protocol, to engines that close connections after a short idle
// time, in the very instant of a write included, every client gets its own
// answer.
func TestStaleKeepAliveCostsNoError(t *testing.T) {
	const clients = 8
	each := scaled(20_000) / clients
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var addresses []string
	var engines []*rawEngine
	for e := range uint64(2) {
		engine := startRawEngine(t, func(c *net.TCPConn, n int) { impatient(c, rand.New(rand.NewPCG(seed+e, uint64(n)))) })
		engines = append(engines, engine)
		addresses = append(addresses, engine.address)
	}
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyDefault, addresses...), port, nil)
	fronts := everyFront(t, p)
	var failed atomic.Int64
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(1000+n)))
			f := fronts[n%len(fronts)]
			for i := range each {
				body := strconv.Itoa(n) + "/" + strconv.Itoa(i)
				resp, err := f.client.Post(f.url+"/x", "text/plain", strings.NewReader(body))
				if err != nil {
					t.Errorf("%s: %s: %v", f.name, body, err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 || err != nil || string(got) != body {
					t.Errorf("%s: %s: %d %q %v", f.name, body, resp.StatusCode, got, err)
					if failed.Add(1) > 5 {
						return
					}
				}
				if rnd.IntN(4) == 0 {
					time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
				}
			}
		})
	}
	wg.Wait()
	made := 0
	for _, e := range engines {
		made += e.accepted()
	}
	stale := attachmentOf(p.snapshot().Backend("Model/ns/m").State).model.retries[retryStale].Load()
	t.Logf("%d requests, %d connections, %d replays", clients*each, made, stale)
	if made < 50 {
		t.Error("the engines closed hardly any connection: the test shows nothing")
	}
}

// impatient serves requests with their own bodies and closes the connection
// when nothing comes within a random moment after some of the answers.
func impatient(c *net.TCPConn, rnd *rand.Rand) {
	r := bufio.NewReader(c)
	for {
		b, err := readRequest(r)
		if err != nil {
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
		if rnd.IntN(5) > 0 {
			continue
		}
		c.SetReadDeadline(time.Now().Add(time.Duration(rnd.IntN(300)) * time.Microsecond))
		if _, err := r.Peek(1); err != nil {
			return
		}
		c.SetReadDeadline(time.Time{})
	}
}

// TestIdleTimeOfEngines: an engine that closes connections after a second of
// idleness, and one that does so without being sooner than the pool, cost no
// error and no replay when requests come seldom.
func TestIdleTimeOfEngines(t *testing.T) {
	var served atomic.Int64
	engine := startRawEngine(t, func(c *net.TCPConn, _ int) {
		r := bufio.NewReader(c)
		for {
			c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if _, err := readRequest(r); err != nil {
				return
			}
			served.Add(1)
			io.WriteString(c, ok200)
		}
	})
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyDefault, engine.address), port, nil)
	for _, f := range everyFront(t, p) {
		for _, wait := range []int{50, 99, 100, 101, 130, 0} {
			resp, err := f.client.Post(f.url+"/x", "text/plain", strings.NewReader("x"))
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%s: %v %v", f.name, resp, err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			time.Sleep(time.Duration(wait) * time.Millisecond)
		}
	}
	if served.Load() != 4*6 {
		t.Errorf("the engine served %d requests", served.Load())
	}
}

// mortal is an engine that a certain request kills: its process is gone with
// all its connections the moment it has read it.
type mortal struct {
	*rawEngine
	dead  atomic.Bool
	kills *atomic.Int64
}

func startMortal(t testing.TB, kills *atomic.Int64) *mortal {
	e := &mortal{kills: kills}
	e.rawEngine = startRawEngine(t, func(c *net.TCPConn, _ int) {
		r := bufio.NewReader(c)
		for !e.dead.Load() {
			b, err := readRequest(r)
			if err != nil {
				return
			}
			if strings.Contains(string(b), "poison") {
				e.kills.Add(1)
				e.die()
				return
			}
			io.WriteString(c, ok200)
		}
	})
	return e
}

// die closes the engine as the kernel does when its process ends.
func (e *mortal) die() {
	e.dead.Store(true)
	e.ln.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.conns {
		c.Close()
	}
}

// TestKillingRequestReachesOneEngine: a request that kills its engine is not
// handed on to the next, over fresh connections and kept ones, by every
// strategy; the requests after it are answered by the others.
func TestKillingRequestReachesOneEngine(t *testing.T) {
	for _, strategy := range strategies {
		for _, warm := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/warm %v", strategy, warm), func(t *testing.T) {
				for range 5 {
					killOne(t, strategy, warm)
				}
			})
		}
	}
}

var strategies = []routing.Strategy{
	routing.StrategyDefault, routing.StrategySession, routing.StrategyPrefix, routing.StrategyLeastLoaded,
}

func killOne(t *testing.T, strategy routing.Strategy, warm bool) {
	t.Helper()
	var kills atomic.Int64
	var addresses []string
	for range 4 {
		addresses = append(addresses, startMortal(t, &kills).address)
	}
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, strategy, addresses...), port, nil)
	client := newClient(t)
	ask := func(content string) int {
		resp := p.post(client, "/v1/chat/completions",
			fmt.Sprintf(`{"session_id":%q,"messages":[{"role":"user","content":%q}]}`, content, content))
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	if warm {
		for i := range 64 {
			if s := ask(fmt.Sprintf("hello %d", i)); s != 200 {
				t.Fatalf("warming up: %d", s)
			}
		}
	}
	if s := ask("poison"); s != 502 {
		t.Errorf("the killing request got %d", s)
	}
	if n := kills.Load(); n != 1 {
		t.Fatalf("it killed %d engines", n)
	}
	for i := range 64 {
		if s := ask(fmt.Sprintf("hello %d", i)); s != http.StatusOK {
			t.Errorf("a request after it got %d", s)
		}
	}
}
