//go:build unix

package fastproxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// openFileLimit is how many descriptors the process may have.
func openFileLimit(t testing.TB) syscall.Rlimit {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return limit
}

// TestDescriptorsUsedUpEndToEnd: without a single descriptor left, requests on
// open connections are served over kept connections to the engine, those that
// need a new one get a 503 that says when to try again, no engine is blamed, and
// everything goes on by itself afterwards.
func TestDescriptorsUsedUpEndToEnd(t *testing.T) {
	hold := make(chan struct{})
	engine := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-hold
		}
		io.WriteString(w, "ok")
	}))
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyLeastLoaded, engine), port, nil)
	one, two := rawClient(t, p), rawClient(t, p)
	readOne, readTwo := bufio.NewReader(one), bufio.NewReader(two)
	ask := func(c net.Conn, path string) { fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path) }
	expect := func(what string, r *bufio.Reader, status int) {
		t.Helper()
		resp, body := readAnswer(t, r, "GET")
		if resp.StatusCode != status || status == 503 && resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %q %v, want %d", what, resp.StatusCode, body, resp.Header, status)
		}
	}
	ask(one, "/")
	expect("before", readOne, 200)
	ask(two, "/")
	expect("before", readTwo, 200)

	limit := openFileLimit(t)
	low := limit
	free, err := syscall.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.Close(free)
	low.Cur = uint64(free)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	restore := sync.OnceFunc(func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) })
	defer restore()
	for range 5 {
		ask(two, "/")
		expect("over the kept connection", readTwo, 200)
	}
	ask(one, "/slow") // takes the only kept connection
	eventually(t, "the slow request runs", func() bool { return p.loads() > 0 })
	time.Sleep(20 * time.Millisecond)
	for range 5 {
		ask(two, "/")
		expect("without a connection", readTwo, 503)
	}
	for _, e := range p.snapshot().Backend("Model/ns/m").Ready {
		if e.PassedOver(time.Now().UnixNano()) {
			t.Error("the endpoint is passed over for the gateway's own shortage")
		}
	}
	restore()
	ask(two, "/")
	expect("after", readTwo, 200)
	close(hold)
	expect("the slow one", readOne, 200)
	if resp := p.post(newClient(t), "/", chat); resp.StatusCode != 200 {
		t.Errorf("a new client: %d", resp.StatusCode)
	}
}

// TestBodyBudgetFull: when the bodies that are held whole have used up the
// process's budget, more of them get a 503 that says when to try again, bodies
// that need not be held go on, and once the uploads are over all is as before.
func TestBodyBudgetFull(t *testing.T) {
	engine := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}))
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyPrefix, engine)
	cfg.Backends = append(cfg.Backends, routing.Backend{
		Key: "Service/ns/s:80", Kind: routing.BackendService, Namespace: "ns", Name: "s", Endpoints: "Model/ns/m",
	})
	cfg.Routes[0].Rules = append(cfg.Routes[0].Rules, routing.Rule{
		Matches:  []routing.Match{{Path: "/streamed"}},
		Backends: []routing.BackendRef{{Backend: "Service/ns/s:80", Weight: 1}},
	})
	p := startProxy(t, cfg, port, func(o *Options) { o.Limits.BufferedBytes = 2 << 20 })
	before := watchResources(t)
	client := newClient(t)
	const size = 500_000
	body := strings.Repeat("x", size)
	var uploads []*net.TCPConn
	for range 4 {
		c := rawClient(t, p)
		fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", size, body[1:])
		uploads = append(uploads, c)
	}
	eventually(t, "the budget is used", func() bool { return p.bodies.used.Load() == 4*size })
	for range 20 {
		resp := p.post(client, "/v1/chat/completions", body)
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !strings.Contains(string(b), "service_unavailable") {
			t.Fatalf("over the budget: %d %s", resp.StatusCode, b)
		}
		resp = p.post(client, "/streamed", body)
		if b, _ = io.ReadAll(resp.Body); resp.StatusCode != 200 || string(b) != fmt.Sprint(size) {
			t.Fatalf("streamed: %d %s", resp.StatusCode, b)
		}
		resp.Body.Close()
	}
	for i, c := range uploads {
		if i%2 == 0 {
			c.Close() // half of them leave
			continue
		}
		io.WriteString(c, "x")
		resp, b := readAnswer(t, bufio.NewReader(c), "POST")
		if resp.StatusCode != 200 || b != fmt.Sprint(size) {
			t.Errorf("an upload within the budget: %d %s", resp.StatusCode, b)
		}
		c.Close()
	}
	eventually(t, "the budget is free", func() bool { return p.bodies.used.Load() == 0 && p.loads() == 0 })
	if resp := p.post(client, "/v1/chat/completions", body); resp.StatusCode != 200 {
		t.Errorf("afterwards: %d", resp.StatusCode)
	}
	client.CloseIdleConnections()
	before.check(t, p)
}

// TestEveryQueueFull: with the queues of all cold Models full, more requests for
// them get 503 queue_full at once, a Model that is ready answers as ever, places
// are freed by clients that leave, and when replicas come the rest is served.
func TestEveryQueueFull(t *testing.T) {
	const models, limit = 4, 8
	engine := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyDefault, engine)
	for i := range models {
		key := fmt.Sprintf("Model/ns/z%d", i)
		cfg.Backends = append(cfg.Backends, routing.Backend{
			Key: key, Kind: routing.BackendModel, Namespace: "ns", Name: fmt.Sprintf("z%d", i), Endpoints: key,
			Serverless: &routing.Serverless{ColdStartTimeout: time.Minute},
		})
		cfg.EndpointLists = append(cfg.EndpointLists, routing.EndpointList{Key: key})
		cfg.Routes[0].Rules = append(cfg.Routes[0].Rules, routing.Rule{
			Matches:  []routing.Match{{Path: fmt.Sprintf("/cold%d", i)}},
			Backends: []routing.BackendRef{{Backend: key, Weight: 1}},
		})
	}
	p := startProxy(t, cfg, port, func(o *Options) { o.Settings.MaxQueueSize = limit })
	before := watchResources(t)
	client := newClient(t)
	depth := func() (n int64) {
		for i := range models {
			n += attachmentOf(p.snapshot().Backend(fmt.Sprintf("Model/ns/z%d", i)).State).queue.depth.Load()
		}
		return n
	}
	var waiting []*net.TCPConn
	for i := range models * limit {
		c := rawClient(t, p)
		fmt.Fprintf(c, "POST /cold%d/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", i%models)
		waiting = append(waiting, c)
	}
	eventually(t, "every queue is full", func() bool { return depth() == models*limit })
	for i := range 40 {
		resp := p.post(client, fmt.Sprintf("/cold%d/x", i%models), "{}")
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 503 || !strings.Contains(string(b), "queue_full") || resp.Header.Get("Retry-After") == "" {
			t.Fatalf("over the queue: %d %s", resp.StatusCode, b)
		}
		resp = p.post(client, "/warm", chat)
		if b, _ = io.ReadAll(resp.Body); resp.StatusCode != 200 {
			t.Fatalf("the ready Model: %d %s", resp.StatusCode, b)
		}
		resp.Body.Close()
	}
	for _, c := range waiting[:models*limit/2] {
		c.Close()
	}
	eventually(t, "those who left have freed their places", func() bool { return depth() == models*limit/2 })
	for i := range p.config.EndpointLists {
		p.config.EndpointLists[i].Endpoints = []routing.Endpoint{{Address: engine, State: routing.EndpointReady}}
	}
	p.apply()
	for _, c := range waiting[models*limit/2:] {
		if resp, b := readAnswer(t, bufio.NewReader(c), "POST"); resp.StatusCode != 200 {
			t.Errorf("a waiting request: %d %s", resp.StatusCode, b)
		}
		c.Close()
	}
	eventually(t, "the ledger is back at zero", func() bool { return p.loads() == 0 && depth() == 0 })
	client.CloseIdleConnections()
	before.check(t, p)
}

// TestClientsThatNeverRead: clients that ask for endless answers and read
// nothing hold back their engine after what sockets and one buffer hold, lose
// their connection when the write-stall time is over, over every protocol, and
// harm nobody else.
func TestClientsThatNeverRead(t *testing.T) {
	var produced, ended atomic.Int64
	engine := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/endless" {
			io.Copy(w, r.Body)
			return
		}
		defer ended.Add(1)
		piece := make([]byte, 32<<10)
		for {
			n, err := w.Write(piece)
			produced.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyLeastLoaded, engine), port, func(o *Options) {
		o.Timeouts.WriteStall = 2 * time.Second
	})
	fronts := everyFront(t, p)
	before := watchResources(t)
	const readers = 40
	var bodies []io.Closer
	for i := range readers {
		f := fronts[i%len(fronts)]
		client := *f.client
		client.Timeout = 0
		resp, err := client.Get(f.url + "/endless")
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, resp.Body)
	}
	for i := range 200 {
		f := fronts[i%2] // HTTP/1.1: a connection of its own
		resp, err := f.client.Post(f.url+"/x", "text/plain", strings.NewReader("x"))
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %v %v", f.name, resp, err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	eventually(t, "all endless answers have been given up", func() bool { return ended.Load() == readers && p.loads() == 0 })
	t.Logf("%d KiB produced for each client that does not read", produced.Load()/readers>>10)
	for _, b := range bodies {
		b.Close()
	}
	for _, f := range fronts {
		f.client.CloseIdleConnections()
	}
	before.check(t, p)
}

// TestIdleConnections holds thousands of idle connections, as many as the
// process's limit of descriptors allows up to 10,000, tells what one costs, and
// that requests on all of them are answered afterwards.
func TestIdleConnections(t *testing.T) {
	limit := openFileLimit(t)
	n := min(scaled(10_000), (int(limit.Cur)-descriptors()-500)/2)
	if n < 100 {
		t.Fatalf("the limit of %d descriptors leaves no room: raise it (ulimit -n)", limit.Cur)
	}
	engine := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyDefault, engine), port, nil)
	before := watchResources(t)
	stackBefore := stackBytes()
	answer := make([]byte, 4096)
	ask := func(c *net.TCPConn) {
		t.Helper()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		k, err := c.Read(answer)
		if err != nil || !bytes.HasPrefix(answer[:k], []byte("HTTP/1.1 200 ")) {
			t.Fatalf("%q %v", answer[:k], err)
		}
	}
	conns := make([]*net.TCPConn, n)
	for i := range conns {
		c, err := net.Dial("tcp", p.address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns[i] = c.(*net.TCPConn)
		ask(conns[i])
	}
	now := readResources()
	heap, stack := (int64(now.heap)-int64(before.heap))/int64(n), (stackBytes()-stackBefore)/int64(n)
	t.Logf("%d idle connections: %d bytes of heap and %d of stacks each, the test's own side included", n, heap, stack)
	if heap+stack > 40<<10 {
		t.Errorf("an idle connection takes %d bytes", heap+stack)
	}
	for _, c := range conns {
		ask(c)
	}
	for _, c := range conns {
		c.Close()
	}
	before.check(t, p)
}
