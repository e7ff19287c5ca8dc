package e2e

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
)

const fileChanges = 200

// inForce is what the files said from a time on.
type inForce struct {
	since   time.Time
	version int             // of the route
	engines map[string]bool // that have a ready endpoint
}

// fileChurn is a standalone gateway whose files change.
type fileChurn struct {
	*gateway
	load       *load
	rnd        *rand.Rand
	ports      map[string]int
	extra      int // port of the listener that comes and goes
	generation int // how many different configurations there were

	engines  map[string]string // name to address
	names    []string          // of the engines: three of the Model m, two of other
	ready    map[string]bool
	weights  [2]int
	secret   string
	listens  bool // on the extra port
	version  int
	redirect int // the version that the route's own redirect is of

	mu      sync.Mutex
	history []inForce
	oldest  time.Duration // how long replaced the oldest configuration was that answered a request

	delays []time.Duration // from a file's change to the configuration's
}

// TestFilesChangeUnderLoad changes the YAML files of a standalone gateway 200
// times, routes, endpoints, weights, certificates and listeners, under requests of
// every protocol, open streams and WebSockets: no request fails, no stream or
// WebSocket is cut, no answer is by files long replaced, files that say the same
// change nothing, and heap, goroutines and descriptors return to where they were.
func TestFilesChangeUnderLoad(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := startFileChurn(t, rand.New(rand.NewPCG(seed, 0)))
	before := c.resources()
	l := c.load
	l.begin()
	kinds := []string{
		"version", "routes", "endpoints", "weights", "certificates", "listeners", "equal",
		"weights", "endpoints", "routes", "listeners", "endpoints", "certificates",
	}
	for i := range fileChanges {
		c.change(kinds[i%len(kinds)])
		if t.Failed() {
			break
		}
	}
	l.end()
	slices.Sort(c.delays)
	t.Logf("%d changes, in force after %v (median), %v (at most); the oldest answer was by files replaced for %v",
		fileChanges, c.delays[len(c.delays)/2].Round(time.Millisecond), c.delays[len(c.delays)-1].Round(time.Millisecond), c.oldest.Round(time.Millisecond))
	// A change must be in force within a second; a busy machine gets more.
	if limit := 5 * time.Second; c.oldest > limit {
		t.Errorf("a request was answered by files replaced for %v", c.oldest)
	}
	c.expectResources(before)
}

func startFileChurn(t *testing.T, rnd *rand.Rand) *fileChurn {
	l := &load{t: t, over: make(chan struct{}), pace: 10 * time.Millisecond}
	c := &fileChurn{
		load: l, rnd: rnd, ports: map[string]int{"http": int(testrig.FreePort(t)), "https": int(testrig.FreePort(t))}, extra: int(testrig.FreePort(t)),
		engines: map[string]string{}, names: []string{"m-1", "m-2", "m-3", "o-1", "o-2"}, ready: map[string]bool{},
		weights: [2]int{1, 1}, version: 1, generation: 1,
	}
	for _, name := range c.names {
		c.engines[name], c.ready[name] = loadEngine(t, name, l.over), true
	}
	c.secret = secretYAML(t)
	c.record()
	c.gateway = serve(t, map[string]string{
		"gateway.yaml": c.gatewayFile(), "secret.yaml": c.secret, "route.yaml": c.routeFile(), "slices.yaml": c.sliceFile(),
		"models.yaml": modelYAML("m", strategy("least-loaded")) + modelYAML("other", strategy("prefix")),
	}, "--pprof", "--log-level", "info")
	c.host = fmt.Sprintf("127.0.0.1:%d", c.ports["http"])
	c.url = "http://" + c.host
	dial := func(ctx context.Context, listener string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", c.ports[listener]))
	}
	l.fronts, l.before = loadFronts(t, dial), c.judge
	l.dial = func(ctx context.Context) (net.Conn, error) { return dial(ctx, "http") }
	return c
}

func (c *fileChurn) gatewayFile() string {
	if c.listens {
		return twoListenersYAML(c.ports, fmt.Sprintf("    - {name: extra, port: %d, protocol: HTTP}\n", c.extra))
	}
	return twoListenersYAML(c.ports, "")
}

// routeFile is the route with its version in each answer, and a redirect of its own.
func (c *fileChurn) routeFile() string {
	return fmt.Sprintf(`---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: any}
spec:
  parentRefs: [{name: g}]
  rules:
    - matches: [{path: {type: Exact, value: /extra/%d}}]
      filters: [{type: RequestRedirect, requestRedirect: {hostname: elsewhere.test, statusCode: 302}}]
    - filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: X-Version, value: "%d"}]}}]
      backendRefs:
        - {group: inference.flexinfer.ai, kind: Model, name: m, weight: %d}
        - {group: inference.flexinfer.ai, kind: Model, name: other, weight: %d}
`, c.redirect, c.version, c.weights[0], c.weights[1])
}

func (c *fileChurn) sliceFile() string {
	var m, other []replica
	for _, name := range c.names {
		r := replica{c.engines[name], c.ready[name]}
		if strings.HasPrefix(name, "m") {
			m = append(m, r)
		} else {
			other = append(other, r)
		}
	}
	return serviceYAML(c.load.t, "m", m...) + serviceYAML(c.load.t, "other", other...)
}

// record notes what the files are about to say.
func (c *fileChurn) record() {
	now := inForce{since: time.Now(), version: c.version, engines: map[string]bool{}}
	for _, name := range c.names {
		now.engines[name] = c.ready[name]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, now)
}

// judge finds out how old the files were that a request is answered by.
func (c *fileChurn) judge() func(*http.Response) {
	sent := time.Now()
	return func(r *http.Response) {
		version, err := strconv.Atoi(r.Header.Get("X-Version"))
		if err != nil {
			c.load.fail("an answer without version: %v", r.Header)
			return
		}
		engine := r.Header.Get("X-Engine")
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, fits := range []func(inForce) bool{
			func(f inForce) bool { return f.version <= version },
			func(f inForce) bool { return f.engines[engine] },
		} {
			for i := len(c.history) - 1; i >= 0; i-- {
				if fits(c.history[i]) {
					break
				}
				c.oldest = max(c.oldest, sent.Sub(c.history[i].since))
			}
		}
	}
}

// change writes a change of a kind and waits until it is in force.
func (c *fileChurn) change(kind string) {
	t := c.load.t
	t.Helper()
	file, equal := "route.yaml", false
	switch kind {
	case "version":
		c.version++
	case "routes":
		c.version++
		c.redirect = c.version
	case "weights":
		c.version++
		c.weights = [2]int{c.rnd.IntN(10), 1 + c.rnd.IntN(10)}
	case "endpoints":
		file, equal = "slices.yaml", !c.changeEndpoints()
	case "certificates":
		file, c.secret = "secret.yaml", secretYAML(t)
	case "listeners":
		file, c.listens = "gateway.yaml", !c.listens
	case "equal":
		equal = true
	}
	content := map[string]func() string{
		"route.yaml": c.routeFile, "slices.yaml": c.sliceFile, "gateway.yaml": c.gatewayFile,
		"secret.yaml": func() string { return c.secret },
	}[file]()
	c.record()
	begun := time.Now()
	if equal {
		c.write(file, "# the same\n"+content)
		time.Sleep(300 * time.Millisecond) // longer than a burst of changes is waited for
		c.expectGeneration(kind)
		return
	}
	c.generation++
	c.write(file, content)
	eventually(t, "the change of "+kind+" is in force", func() bool { return c.served() >= c.generation })
	c.delays = append(c.delays, time.Since(begun))
	c.expectGeneration(kind)
	c.expectChange(kind)
}

// changeEndpoints makes some endpoints ready and others not; false: it changed
// nothing. Each Model keeps one, because a Model without would not be served.
func (c *fileChurn) changeEndpoints() (changed bool) {
	before := maps.Clone(c.ready)
	for _, name := range c.names {
		c.ready[name] = c.rnd.IntN(2) == 0
	}
	c.ready[c.names[c.rnd.IntN(3)]], c.ready[c.names[3+c.rnd.IntN(2)]] = true, true
	return !maps.Equal(before, c.ready)
}

// served is the generation in force.
func (c *fileChurn) served() int {
	return int(total(c.scrape(), "flexinfer_proxy_snapshot_generation"))
}

func (c *fileChurn) expectGeneration(kind string) {
	c.load.t.Helper()
	if got := c.served(); got != c.generation {
		c.load.t.Errorf("generation %d is in force after %d different configurations (%s)", got, c.generation, kind)
	}
}

// expectChange looks at what has changed, from outside.
func (c *fileChurn) expectChange(kind string) {
	t := c.load.t
	t.Helper()
	switch kind {
	case "routes":
		if a := c.do(request{path: fmt.Sprintf("/extra/%d", c.redirect)}); a.status != http.StatusFound {
			t.Errorf("the new route answers %d", a.status)
		}
	case "certificates":
		conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.ports["https"]),
			&tls.Config{InsecureSkipVerify: true, ServerName: "gateway.test"}) //nolint:gosec // the certificate is compared
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		der := conn.ConnectionState().PeerCertificates[0].Raw
		text := strings.Split(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), "\n")[1]
		if !strings.Contains(c.secret, text) {
			t.Error("a new connection gets the old certificate")
		}
	case "listeners":
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", c.extra), patience)
		if (err == nil) != c.listens {
			t.Errorf("the extra listener: %v, want it open: %v", err, c.listens)
		}
		if err == nil {
			_ = conn.Close() // it asked for nothing
		}
	}
}

// footprint is what a process holds.
type footprint struct{ heap, goroutines, descriptors float64 }

// resources reads the metrics after a garbage collection.
func (g *gateway) resources() footprint {
	g.t.Helper()
	for range 2 { // the second empties what the first has made victims
		if code, _ := tryGet(g.admin + "/debug/pprof/heap?gc=1"); code != http.StatusOK {
			g.t.Fatalf("no heap profile: %d", code)
		}
	}
	s := g.scrape()
	return footprint{total(s, "go_memstats_heap_alloc_bytes"), total(s, "go_goroutines"), total(s, "process_open_fds")}
}

// expectResources waits until the process holds no more than before, but for what
// buffers and kept connections take.
func (g *gateway) expectResources(before footprint) {
	g.t.Helper()
	var now footprint
	eventually(g.t, "heap, goroutines and descriptors are back where they were", func() bool {
		now = g.resources()
		return now.heap <= before.heap+16<<20 && now.goroutines <= before.goroutines+20 && now.descriptors <= before.descriptors+20
	})
	g.t.Logf("before: %.0f bytes, %.0f goroutines, %.0f descriptors; after: %.0f, %.0f, %.0f",
		before.heap, before.goroutines, before.descriptors, now.heap, now.goroutines, now.descriptors)
}
