package fastproxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// serverless is oneModel with a Model that scales from zero.
func serverless(port uint16, endpoints ...string) routing.Config {
	cfg := oneModel(port, routing.StrategyDefault, endpoints...)
	cfg.Backends[0].Serverless = &routing.Serverless{ColdStartTimeout: 20 * time.Second}
	return cfg
}

// counts is a Demand without its time.
type counts struct {
	Model            string
	Waiting, Running int
}

// wantDemand waits until the demand is as given.
func (p *proxy) wantDemand(want ...counts) {
	p.t.Helper()
	var got []counts
	deadline := time.Now().Add(10 * time.Second)
	for {
		got = nil
		for _, d := range p.Demand() {
			got = append(got, counts{d.Model, d.Waiting, d.Running})
		}
		diff := cmp.Diff(want, got)
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("demand (-want +got):\n%s", diff)
		}
		time.Sleep(time.Millisecond)
	}
}

// postLater posts and hands over the status, 0 where there was no answer.
func (p *proxy) postLater(ctx context.Context) <-chan int {
	answered := make(chan int, 1)
	client := newClient(p.t)
	go func() {
		req, err := http.NewRequestWithContext(ctx, "POST", p.url("/v1/chat/completions"), strings.NewReader(chat))
		if err != nil {
			answered <- 0
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			answered <- 0
			return
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	return answered
}

// holdingEngine answers when told to, and polls at once.
func holdingEngine(t *testing.T) (address string, release chan struct{}) {
	release = make(chan struct{})
	return startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			<-release
		}
		io.WriteString(w, "answer")
	})), release
}

func TestDemandFollowsAColdStart(t *testing.T) {
	port := testrig.FreePort(t)
	var told atomic.Int64
	p := startProxy(t, serverless(port), port, func(o *Options) { o.DemandChanged = func() { told.Add(1) } })
	engine, release := holdingEngine(t)
	p.wantDemand()
	begun := time.Now()
	first := p.postLater(t.Context())
	p.wantDemand(counts{"ns/m", 1, 0})
	if told.Load() != 1 {
		t.Errorf("told %d times of the first waiting request", told.Load())
	}
	second := p.postLater(t.Context())
	leaving, cancel := context.WithCancel(t.Context())
	third := p.postLater(leaving)
	p.wantDemand(counts{"ns/m", 3, 0})
	cancel() // a client that leaves frees its place
	<-third
	p.wantDemand(counts{"ns/m", 2, 0})
	if told.Load() != 1 {
		t.Errorf("told %d times while the queue was not empty", told.Load())
	}
	p.config.EndpointLists[0].Endpoints = []routing.Endpoint{{Address: engine, State: routing.EndpointReady}}
	p.apply()
	p.wantDemand(counts{"ns/m", 0, 2})
	close(release)
	if a, b := <-first, <-second; a != 200 || b != 200 {
		t.Errorf("the requests that waited got %d and %d", a, b)
	}
	p.wantDemand(counts{"ns/m", 0, 0})
	if last := p.Demand()[0].LastActive; last.Before(begun) || last.After(time.Now()) {
		t.Errorf("last active at %s, the requests began at %s", last, begun)
	}
}

// TestDemandOfPolls: what is no work is in no count and moves nothing, whether
// an endpoint answers it or nobody does.
func TestDemandOfPolls(t *testing.T) {
	engine, release := holdingEngine(t)
	defer close(release)
	port := testrig.FreePort(t)
	var told atomic.Int64
	p := startProxy(t, serverless(port, engine), port, func(o *Options) { o.DemandChanged = func() { told.Add(1) } })
	client := newClient(t)
	poll := func(method string, want int) {
		t.Helper()
		req, err := http.NewRequest(method, p.url("/v1/models"), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", method, resp.StatusCode, want)
		}
	}
	for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
		poll(method, 200)
	}
	p.wantDemand()
	p.config.EndpointLists[0].Endpoints = nil
	p.apply()
	for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
		poll(method, 503)
	}
	p.wantDemand()
	if told.Load() != 0 {
		t.Errorf("told %d times of polls", told.Load())
	}
}

// TestDemandOfAPollThatRuns: an endpoint that takes its time for a poll has load,
// and the Model no demand.
func TestDemandOfAPollThatRuns(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	engine := startEngine(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	port := testrig.FreePort(t)
	p := startProxy(t, serverless(port, engine), port, nil)
	client := newClient(t)
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		if resp, err := client.Get(p.url("/v1/models")); err == nil {
			resp.Body.Close()
		}
	}()
	<-arrived
	work := p.postLater(t.Context())
	<-arrived
	p.wantDemand(counts{"ns/m", 0, 1})
	if n := p.snapshot().Backend("Model/ns/m").State.Active(); n != 2 {
		t.Errorf("%d active, want 2", n)
	}
	release <- struct{}{}
	release <- struct{}{}
	<-work
	<-polled
	p.wantDemand(counts{"ns/m", 0, 0})
}

// TestDemandTellsTheEndOfIdleness: the first work after an idle time is told at
// once, further work beside it is not.
func TestDemandTellsTheEndOfIdleness(t *testing.T) {
	engine, release := holdingEngine(t)
	port := testrig.FreePort(t)
	var told atomic.Int64
	p := startProxy(t, serverless(port, engine), port, func(o *Options) { o.DemandChanged = func() { told.Add(1) } })
	first := p.postLater(t.Context())
	p.wantDemand(counts{"ns/m", 0, 1})
	time.Sleep(time.Duration(demandIdle)) // running is not idle
	second := p.postLater(t.Context())
	p.wantDemand(counts{"ns/m", 0, 2})
	if told.Load() != 1 {
		t.Errorf("told %d times, want once", told.Load())
	}
	close(release)
	<-first
	<-second
	p.wantDemand(counts{"ns/m", 0, 0})
	if before, now := p.Demand()[0].LastActive, time.Now(); now.Sub(before) > time.Second {
		t.Errorf("last active %s ago", now.Sub(before))
	}
	eventually(t, "the Model is idle", func() bool {
		return time.Now().UnixNano()-p.snapshot().Backend("Model/ns/m").State.LastWork() >= demandIdle
	})
	<-p.postLater(t.Context())
	if told.Load() != 2 {
		t.Errorf("told %d times, want twice", told.Load())
	}
}

// TestDemandOfGroups: requests for a label group are demand for its cold-start
// target, also where that becomes another Model while they wait.
func TestDemandOfGroups(t *testing.T) {
	port := testrig.FreePort(t)
	cfg := serverless(port)
	n := cfg.Backends[0]
	n.Key, n.Name, n.Endpoints = "Model/ns/n", "n", "Model/ns/n"
	group := routing.Backend{Key: "Group/ns/g", Kind: routing.BackendGroup, Namespace: "ns", Name: "g", Members: []string{"Model/ns/m", "Model/ns/n"}}
	cfg.Backends = []routing.Backend{group, cfg.Backends[0], n}
	cfg.EndpointLists = append(cfg.EndpointLists, routing.EndpointList{Key: "Model/ns/n"})
	cfg.Routes[0].Rules[0].Backends[0].Backend = "Group/ns/g"
	p := startProxy(t, cfg, port, nil)
	waits := p.postLater(t.Context())
	p.wantDemand(counts{"ns/m", 1, 0})
	p.config.Backends[2].Priority = 1
	p.apply()
	p.wantDemand(counts{"ns/m", 0, 0}, counts{"ns/n", 1, 0})
	p.config.EndpointLists[0].Endpoints = []routing.Endpoint{{Address: startEngine(t, http.HandlerFunc(status(200))), State: routing.EndpointReady}}
	p.apply() // another member becomes Ready
	if s := <-waits; s != 200 {
		t.Errorf("answered with %d", s)
	}
	p.wantDemand(counts{"ns/m", 0, 0}, counts{"ns/n", 0, 0})
}

// TestDemandOfDepartedModels: an exchange of a Model that no route names any more
// is demand until it ends, and no longer.
func TestDemandOfDepartedModels(t *testing.T) {
	engine, release := holdingEngine(t)
	port := testrig.FreePort(t)
	p := startProxy(t, serverless(port, engine), port, nil)
	before := p.config
	first := p.postLater(t.Context())
	p.wantDemand(counts{"ns/m", 0, 1})
	p.config = routing.Config{Listeners: before.Listeners}
	p.apply()
	p.wantDemand(counts{"ns/m", 0, 1})
	p.config = before
	p.apply()
	second := p.postLater(t.Context())
	p.wantDemand(counts{"ns/m", 0, 2}) // one of the old, one of the new entity
	close(release)
	if a, b := <-first, <-second; a != 200 || b != 200 {
		t.Errorf("answered with %d and %d", a, b)
	}
	p.wantDemand(counts{"ns/m", 0, 0})
	eventually(t, "the departed Model is forgotten", func() bool {
		runtime.GC()
		p.Demand()
		p.departed.mu.Lock()
		defer p.departed.mu.Unlock()
		return len(p.departed.models) == 0
	})
}

// TestDemandOfTunnels: an upgrade does not wake, an open tunnel is work.
func TestDemandOfTunnels(t *testing.T) {
	engine := upgradeEngine(t, "", func(c *net.TCPConn, r *bufio.Reader) { io.Copy(c, r) })
	port := testrig.FreePort(t)
	p := startProxy(t, serverless(port, engine.address), port, nil)
	c, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET /v1/realtime HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("%v %v", resp, err)
	}
	p.wantDemand(counts{"ns/m", 0, 1})
	c.Close()
	p.wantDemand(counts{"ns/m", 0, 0})
}

// TestDemandIsOfServerlessModels: nobody scales the others.
func TestDemandIsOfServerlessModels(t *testing.T) {
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyDefault, startEngine(t, http.HandlerFunc(status(200)))), port, nil)
	<-p.postLater(t.Context())
	p.wantDemand()
	p.config.Backends[0].Serverless = &routing.Serverless{}
	p.apply() // what it did before counts from now on
	p.wantDemand(counts{"ns/m", 0, 0})
}

// TestDrainServesWhoWaits: a request that waits for a first replica gets it
// although its gateway is on its way out; who comes meanwhile waits as well.
func TestDrainServesWhoWaits(t *testing.T) {
	port := testrig.FreePort(t)
	p := startProxy(t, serverless(port), port, nil)
	waits := p.postLater(t.Context())
	p.wantDemand(counts{"ns/m", 1, 0})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- p.Drain(ctx) }()
	eventually(t, "the port is closed", func() bool { return p.Addr(port) == nil })
	p.wantDemand(counts{"ns/m", 1, 0})
	p.config.EndpointLists[0].Endpoints = []routing.Endpoint{{Address: startEngine(t, http.HandlerFunc(status(200))), State: routing.EndpointReady}}
	p.apply()
	if s := <-waits; s != 200 {
		t.Errorf("answered with %d", s)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if p.Addr(port) != nil {
		t.Error("a configuration has opened a port of a server that drains")
	}
	if err := p.Apply(&p.config); err == nil {
		t.Error("a drained server takes a configuration")
	}
}

// TestDrainDismissesWhoWaits: where nobody comes to help in time, those who wait
// are told to come again before they are cut.
func TestDrainDismissesWhoWaits(t *testing.T) {
	port := testrig.FreePort(t)
	p := startProxy(t, serverless(port), port, nil)
	client := newClient(t)
	type answer struct {
		status int
		again  string
	}
	waits := make(chan answer, 1)
	go func() {
		resp := p.post(client, "/v1/chat/completions", chat)
		resp.Body.Close()
		waits <- answer{resp.StatusCode, resp.Header.Get("Retry-After")}
	}()
	p.wantDemand(counts{"ns/m", 1, 0})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := p.Drain(ctx); err != nil {
		t.Error(err)
	}
	if a := <-waits; a.status != 503 || a.again == "" {
		t.Errorf("answered with %+v", a)
	}
}
