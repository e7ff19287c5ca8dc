package fastproxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

const (
	churnChanges = 200
	churnStreams = 50
	churnTunnels = 20
)

// churn is a proxy whose configuration changes under load.
type churn struct {
	t       *testing.T
	p       *proxy
	fronts  []protocolFront
	engines []string
	rnd     *rand.Rand
	// applied is the number of the last change that has been applied.
	applied atomic.Int64
	extra   uint16 // the port of the listener that comes and goes
	refuse  bool   // it should be gone now

	stop             chan struct{}
	requests, events atomic.Int64
	echoes           atomic.Int64
}

// churnEngine answers with the request's body, streams until its client leaves
// on /stream, and echoes on /tunnel.
func churnEngine(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/stream":
		for i := 0; r.Context().Err() == nil; i++ {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	case "/tunnel":
		if c, rw, err := w.(http.Hijacker).Hijack(); err == nil {
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			io.Copy(c, rw)
			c.Close()
		}
	default:
		io.Copy(w, r.Body)
	}
}

// TestConfigurationChurn: 200 changes of routes, endpoints, weights,
// certificates and listeners under the load of 20,000 requests, 50 open streams
// and 20 tunnels: no request fails, no stream or tunnel is cut, no answer is by
// a configuration older than the last applied when it was asked for, and
// goroutines, descriptors and memory return to where they were.
func TestConfigurationChurn(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &churn{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), stop: make(chan struct{})}
	for range 5 {
		c.engines = append(c.engines, startEngine(t, http.HandlerFunc(churnEngine)))
	}
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyLeastLoaded, c.engines[:3]...)
	cfg.Backends = append(cfg.Backends, routing.Backend{
		Key: "Model/ns/n", Kind: routing.BackendModel, Namespace: "ns", Name: "n",
		Strategy: routing.StrategyPrefix, Endpoints: "Model/ns/n", DecodeRequests: true,
	})
	cfg.EndpointLists = append(cfg.EndpointLists, routing.EndpointList{Key: "Model/ns/n", Endpoints: []routing.Endpoint{
		{Address: c.engines[3], State: routing.EndpointReady}, {Address: c.engines[4], State: routing.EndpointReady},
	}})
	rule := &cfg.Routes[0].Rules[0]
	rule.Backends = append(rule.Backends, routing.BackendRef{Backend: "Model/ns/n", Weight: 1})
	c.p = startProxy(t, cfg, port, nil)
	c.extra = testrig.FreePort(t)
	c.fronts = everyFront(t, c.p)
	c.change("version")
	before := watchResources(t)

	var load sync.WaitGroup
	total := scaled(20_000)
	for n := range 8 {
		load.Go(func() { c.ask(n, total/8) })
	}
	ready := make(chan struct{}, churnStreams+churnTunnels)
	for n := range churnStreams {
		load.Go(func() { c.stream(n, ready) })
	}
	for n := range churnTunnels {
		load.Go(func() { c.tunnel(n, ready) })
	}
	for range cap(ready) {
		select {
		case <-ready:
		case <-time.After(20 * time.Second):
			t.Fatal("the streams do not begin")
		}
	}
	begun := time.Now()
	kinds := []string{"version", "routes", "endpoints", "weights", "certificates", "listeners", "equal"}
	for i := range churnChanges {
		c.change(kinds[i%len(kinds)])
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(begun)
	close(c.stop)
	load.Wait()
	t.Logf("%d changes in %v under %d requests, %d events of %d streams, %d echoes of %d tunnels",
		churnChanges, took, c.requests.Load(), c.events.Load(), churnStreams, c.echoes.Load(), churnTunnels)
	for _, f := range c.fronts {
		f.client.CloseIdleConnections()
	}
	c.apply()
	eventually(t, "the ledger is back at zero", func() bool { return c.p.loads() == 0 })
	before.check(t, c.p)
}

// ask sends its share of the requests.
func (c *churn) ask(n, requests int) {
	f := c.fronts[n%len(c.fronts)]
	for i := 0; i < requests || !c.over(); i++ {
		body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d/%d"}]}`, n, i)
		version := c.applied.Load()
		resp, err := f.client.Post(f.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			c.t.Errorf("%s: %v", f.name, err)
			return
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || string(got) != body {
			c.t.Errorf("%s: %d %q %v", f.name, resp.StatusCode, got, err)
			return
		}
		if v, _ := strconv.ParseInt(resp.Header.Get("X-Version"), 10, 64); v < version {
			c.t.Errorf("%s: answered by version %d after %d was applied", f.name, v, version)
		}
		c.requests.Add(1)
	}
}

// over says whether the changes have come to an end.
func (c *churn) over() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// stream reads one long answer until the load is over.
func (c *churn) stream(n int, ready chan<- struct{}) {
	f := c.fronts[n%len(c.fronts)]
	client := *f.client
	client.Timeout = 0
	resp, err := client.Post(f.url+"/stream", "application/json", strings.NewReader(chat))
	if err != nil {
		c.t.Errorf("stream %d: %v", n, err)
		return
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for i := 0; lines.Scan(); {
		line := lines.Text()
		if line == "" {
			continue
		}
		if want := "data: " + strconv.Itoa(i); line != want {
			c.t.Errorf("stream %d: %q, want %q", n, line, want)
			return
		}
		if i == 0 {
			ready <- struct{}{}
		}
		i++
		c.events.Add(1)
		if c.over() {
			return
		}
	}
	c.t.Errorf("stream %d was cut: %v", n, lines.Err())
}

// tunnel sends messages through an upgraded connection until the load is over.
func (c *churn) tunnel(n int, ready chan<- struct{}) {
	conn, err := net.Dial("tcp", c.p.address())
	if err != nil {
		c.t.Error(err)
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	io.WriteString(conn, "GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 101 {
		c.t.Errorf("tunnel %d: %v %v", n, resp, err)
		return
	}
	ready <- struct{}{}
	for i := 0; ; i++ {
		message := pattern(1 + i%3000)
		got := make([]byte, len(message))
		conn.Write(message)
		if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, message) {
			c.t.Errorf("tunnel %d was cut at message %d: %v", n, i, err)
			return
		}
		c.echoes.Add(1)
		select {
		case <-c.stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// change applies one change of a kind and looks whether it holds at once.
func (c *churn) change(kind string) {
	c.t.Helper()
	cfg := &c.p.config
	next := c.applied.Load() + 1
	cfg.Routes, cfg.Listeners = slices.Clone(cfg.Routes), slices.Clone(cfg.Listeners)
	cfg.EndpointLists, cfg.Certificates = slices.Clone(cfg.EndpointLists), slices.Clone(cfg.Certificates)
	rule := cfg.Routes[0].Rules[0]
	var certPEM []byte
	switch kind {
	case "equal":
		c.equal()
		return
	case "routes":
		c.changeRoutes(next)
	case "endpoints":
		for i := range cfg.EndpointLists {
			list := c.engines[i*3 : min(i*3+3, len(c.engines))]
			cfg.EndpointLists[i].Endpoints = c.someEndpoints(list)
		}
	case "weights":
		rule.Backends = slices.Clone(rule.Backends)
		rule.Backends[0].Weight, rule.Backends[1].Weight = int32(c.rnd.IntN(10)), int32(1+c.rnd.IntN(10))
	case "certificates":
		cert, key := testrig.SelfSigned(c.t, "a.test")
		cfg.Certificates[0].CertPEM, cfg.Certificates[0].KeyPEM = cert, key
		certPEM = cert
	case "listeners":
		c.changeListeners()
	}
	rule.Filters = []routing.Filter{{ResponseHeaders: &routing.HeaderFilter{
		Set: []routing.Header{{Name: "X-Version", Value: strconv.FormatInt(next, 10)}},
	}}}
	cfg.Routes[0].Rules = []routing.Rule{rule}
	c.apply()
	c.applied.Store(next)
	switch {
	case certPEM != nil:
		c.checkCertificate(certPEM)
	case kind == "routes":
		c.checkRoute(next)
	case kind == "listeners":
		c.checkListener()
	}
}

// apply serves the configuration as it stands now; Apply keeps what it is given.
func (c *churn) apply() {
	c.t.Helper()
	c.p.config.Generation++
	next := c.p.config
	if err := c.p.Apply(&next); err != nil {
		c.t.Fatal(err)
	}
}

// changeRoutes adds a route that redirects, in place of that of the last time.
func (c *churn) changeRoutes(version int64) {
	cfg := &c.p.config
	cfg.Routes = append(cfg.Routes[:1:1], routing.Route{
		Key: "HTTPRoute/ns/z", Listeners: cfg.Routes[0].Listeners,
		Rules: []routing.Rule{{
			Matches: []routing.Match{{PathType: routing.PathExact, Path: fmt.Sprintf("/extra/%d", version)}},
			Filters: []routing.Filter{{Redirect: &routing.RedirectFilter{Status: 302, Hostname: "elsewhere.test"}}},
		}},
	})
}

func (c *churn) checkRoute(version int64) {
	c.t.Helper()
	got := once(c.t, c.p.address(), fmt.Sprintf("GET /extra/%d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", version))
	if statusOf(got) != "302" {
		c.t.Errorf("the route of version %d: %q", version, got)
	}
}

// someEndpoints is a random choice of at least one, some of them draining.
func (c *churn) someEndpoints(addresses []string) (list []routing.Endpoint) {
	keep := c.rnd.IntN(len(addresses))
	for i, a := range addresses {
		switch {
		case i == keep:
			list = append(list, routing.Endpoint{Address: a, State: routing.EndpointReady})
		case c.rnd.IntN(2) == 0:
			state := routing.EndpointReady
			if c.rnd.IntN(2) == 0 {
				state = routing.EndpointDraining
			}
			list = append(list, routing.Endpoint{Address: a, State: state})
		}
	}
	return list
}

// changeListeners adds the extra listener, or takes it away.
func (c *churn) changeListeners() {
	cfg := &c.p.config
	const key = "ns/gw/more"
	r := &cfg.Routes[0]
	if c.refuse = slices.ContainsFunc(cfg.Listeners, func(l routing.Listener) bool { return l.Key == key }); c.refuse {
		cfg.Listeners = cfg.Listeners[:2]
		cfg.Routes[0].Listeners = r.Listeners[:2]
		cfg.Routes = cfg.Routes[:1]
		return
	}
	cfg.Listeners = append(cfg.Listeners, routing.Listener{Key: key, Gateway: "ns/gw", Port: c.extra, Protocol: routing.ProtocolHTTP})
	r.Listeners = append(slices.Clone(r.Listeners), routing.Attachment{Listener: key})
}

func (c *churn) checkListener() {
	c.t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", c.extra)
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if refused := err != nil; refused != c.refuse {
		c.t.Errorf("extra listener: %v, want it refused: %v", err, c.refuse)
	}
	if err == nil {
		conn.Close()
		if got := once(c.t, address, "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); statusOf(got) != "200" {
			c.t.Errorf("extra listener: %q", got)
		}
	}
}

func (c *churn) checkCertificate(certPEM []byte) {
	c.t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(c.fronts[2].url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		c.t.Error(err)
		return
	}
	defer conn.Close()
	block, _ := pem.Decode(certPEM)
	want, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		c.t.Fatal(err)
	}
	if !conn.ConnectionState().PeerCertificates[0].Equal(want) {
		c.t.Error("a new connection gets the old certificate")
	}
}

// equal applies what is served already: everything compiled stays the same.
func (c *churn) equal() {
	c.t.Helper()
	before := c.p.snapshot()
	c.apply()
	after := c.p.snapshot()
	for _, b := range before.Backends() {
		if after.Backend(b.Key) != b {
			c.t.Errorf("backend %s was compiled anew for an equal configuration", b.Key)
		}
	}
	for _, s := range before.Sockets() {
		if after.Socket(s.Port).Listener([]byte("a")) != s.Listener([]byte("a")) {
			c.t.Errorf("the listener of port %d was compiled anew for an equal configuration", s.Port)
		}
	}
	if after.Version() != before.Version() {
		c.t.Errorf("version %s became %s by an equal configuration", before.Version(), after.Version())
	}
}

// once sends a raw request on a connection of its own and returns all that
// comes back.
func once(t testing.TB, address, raw string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, raw)
	b, err := io.ReadAll(c)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}
