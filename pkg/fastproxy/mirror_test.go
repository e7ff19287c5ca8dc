package fastproxy

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// heard is what a mirror got, as one line.
func heard(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	return fmt.Sprintf("%s %s %s added=%s connection=%q body=%.40q (%d)",
		r.Method, r.Host, r.RequestURI, r.Header.Get("X-Added"), r.Header.Get("Connection"), body, len(body))
}

// mirrored starts a proxy whose rule copies to the Model copy at the mirror's
// address; the main Model answers "main".
func mirroredProxy(t *testing.T, mirror string, edit func(*routing.Config, *Options)) *proxy {
	t.Helper()
	main := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "main %d", n)
	}))
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyDefault, main)
	addModel(&cfg, "ns", "copy", routing.StrategyDefault, "", mirror)
	cfg.Routes[0].Rules[0].Filters = []routing.Filter{
		{RequestHeaders: &routing.HeaderFilter{Set: []routing.Header{{Name: "X-Added", Value: "1"}}}},
		{Mirror: &routing.MirrorFilter{Backend: "Model/ns/copy", Numerator: 1, Denominator: 1}},
	}
	return startProxy(t, cfg, port, func(o *Options) {
		if edit != nil {
			edit(&cfg, o)
		}
	})
}

func (p *proxy) checkMain(path, body string) {
	p.t.Helper()
	resp := p.post(newClient(p.t), path, body)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if want := fmt.Sprintf("main %d", len(body)); err != nil || resp.StatusCode != 200 || string(got) != want {
		p.t.Errorf("%s: %d %q, %v; want %q", path, resp.StatusCode, got, err, want)
	}
}

// settled waits until no copy runs and returns the counts.
func (m *mirrors) settled(t *testing.T) (sent, dropped, failed uint64) {
	t.Helper()
	waitUntil(t, "no copy runs", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.running) == 0
	})
	return m.sent.Load(), m.dropped.Load(), m.failed.Load()
}

func TestMirrorGetsACopy(t *testing.T) {
	got := make(chan string, 1)
	mirror := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- heard(r)
		io.WriteString(w, strings.Repeat("thrown away ", 100_000))
	}))
	p := mirroredProxy(t, mirror, nil)
	f := func(path, body string) {
		t.Helper()
		p.checkMain(path, body)
		want := fmt.Sprintf("POST %s %s added=1 connection=\"\" body=%.40q (%d)", p.address(), path, body, len(body))
		select {
		case line := <-got:
			if line != want {
				t.Errorf("got  %s\nwant %s", line, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no copy came")
		}
	}
	f("/a%2Fb?c=d", "")
	f("/small", `{"a":1}`)
	f("/large", strings.Repeat("x", 1<<20))
	if sent, dropped, failed := p.mirrors.settled(t); sent != 3 || dropped != 0 || failed != 0 {
		t.Errorf("sent %d, dropped %d, failed %d", sent, dropped, failed)
	}
	if used := p.bodies.used.Load(); used != 0 {
		t.Errorf("%d bytes of the budget are still taken", used)
	}
	if n := p.loads(); n != 0 {
		t.Errorf("the ledgers still hold %d", n)
	}
}

// TestMirrorNeverTouchesTheAnswer: mirrors that refuse, hang or break off leave
// the main answer as it is, and at once.
func TestMirrorNeverTouchesTheAnswer(t *testing.T) {
	release := make(chan struct{})
	hanging := startEngine(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release) })
	breaking := startEngine(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	f := func(name, mirror string, wantFailed bool) {
		t.Helper()
		p := mirroredProxy(t, mirror, nil)
		for range 5 {
			begun := time.Now()
			p.checkMain("/", `{"a":1}`)
			if d := time.Since(begun); d > 5*time.Second {
				t.Errorf("%s: the answer took %v", name, d)
			}
		}
		if !wantFailed {
			return
		}
		if sent, _, failed := p.mirrors.settled(t); sent != 5 || failed != 5 {
			t.Errorf("%s: sent %d, failed %d", name, sent, failed)
		}
	}
	f("refusing", fmt.Sprintf("127.0.0.1:%d", testrig.FreePort(t)), true)
	f("breaking", breaking, true)
	f("hanging", hanging, false)
}

func TestMirrorIsBounded(t *testing.T) {
	release := make(chan struct{})
	var running atomic.Int64
	hanging := startEngine(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		running.Add(1)
		<-release
	}))
	p := mirroredProxy(t, hanging, func(_ *routing.Config, o *Options) { o.Limits.Mirrors = 2 })
	for range 5 {
		p.checkMain("/", `{"a":1}`)
	}
	waitUntil(t, "the copies run", func() bool { return running.Load() == 2 })
	if sent, dropped := p.mirrors.sent.Load(), p.mirrors.dropped.Load(); sent != 2 || dropped != 3 {
		t.Errorf("sent %d, dropped %d", sent, dropped)
	}
	closed := make(chan struct{})
	go func() { // the end of the process cuts what runs
		p.mirrors.close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("close waits for engines")
	}
	p.checkMain("/", `{"a":1}`)
	close(release)
	if sent, dropped, failed := p.mirrors.settled(t); sent != 2 || dropped != 4 || failed != 2 {
		t.Errorf("after close: sent %d, dropped %d, failed %d", sent, dropped, failed)
	}
}

// TestMirrorOfNobody: a mirror without an endpoint is no reason to wait or fail.
func TestMirrorOfNobody(t *testing.T) {
	p := mirroredProxy(t, "10.0.0.1:8000", func(cfg *routing.Config, _ *Options) {
		cfg.EndpointLists[0].Endpoints = nil
	})
	p.checkMain("/", `{"a":1}`)
	if sent, dropped, _ := p.mirrors.settled(t); sent != 0 || dropped != 1 {
		t.Errorf("sent %d, dropped %d", sent, dropped)
	}
}

// TestMirrorShares: a share is met within three standard deviations.
func TestMirrorShares(t *testing.T) {
	m := &mirrors{server: &Server{options: Options{}.withDefaults()}} // no room: each drawn copy is dropped
	x := &exchange{server: m.server}
	x.req = *get(t, "/")
	x.req.body = noBody{}
	x.whole.read = true
	f := func(numerator, denominator int32) {
		t.Helper()
		m.dropped.Store(0)
		const n = 20_000
		for range n {
			m.copy(x, &routing.Mirror{Backend: &routing.CompiledBackend{}, Numerator: numerator, Denominator: denominator})
		}
		share := float64(numerator) / float64(denominator)
		deviation := math.Abs(float64(m.dropped.Load())-n*share) / max(math.Sqrt(n*share*(1-share)), 1e-9)
		if deviation > 5 {
			t.Errorf("%d/%d: %d of %d, %.1f standard deviations off", numerator, denominator, m.dropped.Load(), n, deviation)
		}
	}
	f(1, 1)
	f(20, 100)
	f(35, 100)
	f(25, 50)
	f(0, 100)
}

// noBody is the body of a request without one.
type noBody struct{}

func (noBody) Len() int64               { return 0 }
func (noBody) Read([]byte) (int, error) { return 0, io.EOF }
func (noBody) Whole() []byte            { return nil }
