package publish

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"flexinfer.ai/gateway/pkg/routing"
)

const serverName = "flexinfer-controller.flexinfer-system.svc"

// installation is a CA and who may show which token.
type installation struct {
	t       *testing.T
	cert    []byte
	key     []byte
	caFile  string
	tokens  map[string]Identity
	mu      sync.Mutex
	reports []Report
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	cert, key, err := GenerateAuthority()
	if err != nil {
		t.Fatal(err)
	}
	in := &installation{t: t, cert: cert, key: key, caFile: filepath.Join(t.TempDir(), "ca.crt"), tokens: map[string]Identity{
		"token-a1": {"ns/a", "a-1"}, "token-a2": {"ns/a", "a-2"}, "token-b1": {"ns/b", "b-1"},
	}}
	if err := os.WriteFile(in.caFile, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	return in
}

// replica is one running Publisher.
type replica struct {
	*Publisher
	address  string
	registry *prometheus.Registry
	stop     func()
}

func (in *installation) replica(instance string) *replica {
	in.t.Helper()
	registry := prometheus.NewRegistry()
	p, err := New(Options{
		Logger: slog.New(slog.DiscardHandler), Instance: instance, ServerNames: []string{serverName}, Registerer: registry,
		Authenticate: func(_ context.Context, token, peer string) (Identity, error) {
			if peer != "127.0.0.1" {
				return Identity{}, fmt.Errorf("peer %q", peer)
			}
			if who, ok := in.tokens[token]; ok {
				return who, nil
			}
			return Identity{}, fmt.Errorf("%w: the token is for other audiences", ErrUnauthenticated)
		},
		Demand: func(r Report) {
			in.mu.Lock()
			defer in.mu.Unlock()
			in.reports = append(in.reports, r)
		},
	})
	if err != nil {
		in.t.Fatal(err)
	}
	a, err := NewAuthority(in.cert, in.key, in.cert)
	if err != nil {
		in.t.Fatal(err)
	}
	p.SetAuthority(a)
	r := &replica{Publisher: p, registry: registry}
	r.serve(in.t, "127.0.0.1:0")
	return r
}

func (r *replica) serve(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	r.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, l) }()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(r.stop)
}

// pod is a gateway pod as far as this package goes.
type pod struct {
	*Subscriber
	mu      sync.Mutex
	configs []*routing.Config
	applied Applied
	demand  []ModelDemand
	stop    func()
}

func (in *installation) pod(controller, token string, initial *routing.Config) *pod {
	in.t.Helper()
	tokenFile := filepath.Join(in.t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		in.t.Fatal(err)
	}
	p := &pod{}
	s, err := NewSubscriber(SubscriberOptions{
		Logger: slog.New(slog.DiscardHandler), Controller: controller, ServerName: serverName,
		CAFile: in.caFile, TokenFile: tokenFile, Initial: initial,
		Apply: func(cfg *routing.Config) Applied {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.configs = append(p.configs, cfg)
			return p.applied
		},
		Demand: func() []ModelDemand {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.demand
		},
	})
	if err != nil {
		in.t.Fatal(err)
	}
	p.Subscriber = s
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	p.stop = func() { cancel(); <-done }
	in.t.Cleanup(p.stop)
	return p
}

// last is the Config applied last, and how many were.
func (p *pod) last() (*routing.Config, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.configs) == 0 {
		return nil, 0
	}
	return p.configs[len(p.configs)-1], len(p.configs)
}

func (p *pod) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within 20 s: ", what)
		}
	}
}

// serves waits until a pod has applied cfg.
func (p *pod) serves(t *testing.T, cfg *routing.Config) {
	t.Helper()
	eventually(t, "the pod serves the Config", func() bool {
		got, _ := p.last()
		return got != nil && cmp.Equal(got, cfg)
	})
}

func config(generation uint64, endpoints ...string) *routing.Config {
	list := routing.EndpointList{Key: "Model/ns/m"}
	for _, e := range endpoints {
		list.Endpoints = append(list.Endpoints, routing.Endpoint{Address: e})
	}
	return &routing.Config{
		Generation: generation,
		Listeners:  []routing.Listener{{Key: "ns/a/http", Gateway: "ns/a", Port: 80, Protocol: routing.ProtocolHTTP, Hostname: "*.example.com"}},
		Routes: []routing.Route{{Key: "HTTPRoute/ns/r", Listeners: []routing.Attachment{{Listener: "ns/a/http"}}, Rules: []routing.Rule{{
			Filters:        []routing.Filter{{RequestHeaders: &routing.HeaderFilter{Set: []routing.Header{{Name: "X-<&>", Value: "\u2028é"}}}}},
			RequestTimeout: time.Second,
			Backends:       []routing.BackendRef{{Backend: "Model/ns/m", Weight: 1}},
		}}}},
		Backends:      []routing.Backend{{Key: "Model/ns/m", Kind: routing.BackendModel, Endpoints: "Model/ns/m"}},
		EndpointLists: []routing.EndpointList{list},
		Certificates:  []routing.Certificate{{Key: "Secret/ns/tls", CertPEM: []byte("leaf"), KeyPEM: []byte("key")}},
	}
}

func (r *replica) acked(gateway, pod string) bool {
	s := r.State(gateway)
	for _, p := range s.Pods {
		if p.Pod == pod && p.Version == s.Version && s.Version != "" {
			return true
		}
	}
	return false
}

// A Config arrives as it was published, is acknowledged, and afterwards only
// what changed travels.
func TestPublish(t *testing.T) {
	in := newInstallation(t)
	r := in.replica("one")
	r.Publish("ns/a", config(1, "10.0.0.1:80"))
	p := in.pod(r.address, "token-a1", nil)
	p.serves(t, config(1, "10.0.0.1:80"))
	eventually(t, "acknowledged", func() bool { return r.acked("ns/a", "a-1") })

	sent := func() float64 { return testutil.ToFloat64(r.metrics.resources.WithLabelValues("set")) }
	before := sent()
	r.Publish("ns/a", config(2, "10.0.0.1:80")) // equal
	r.Publish("ns/a", config(3, "10.0.0.2:80"))
	p.serves(t, config(3, "10.0.0.2:80"))
	if got := sent() - before; got != 1 {
		t.Errorf("%v resources sent for one changed endpoint list", got)
	}
	if _, n := p.last(); n != 2 {
		t.Errorf("%d Configs applied, want 2", n)
	}
	less := config(4, "10.0.0.2:80")
	less.Certificates = nil
	r.Publish("ns/a", less)
	p.serves(t, less)

	r.Remove("ns/a")
	if s := r.State("ns/a"); s.Version != "" || len(s.Pods) != 1 {
		t.Errorf("after Remove: %+v", s)
	}
	p.stop()
	eventually(t, "the pod is gone", func() bool { return len(r.State("ns/a").Pods) == 0 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.gateways) != 0 {
		t.Errorf("%d Gateways remembered", len(r.gateways))
	}
}

// A pod that starts with its last good Config is sent nothing that it has.
func TestLastGood(t *testing.T) {
	in := newInstallation(t)
	r := in.replica("one")
	r.Publish("ns/a", config(7, "10.0.0.1:80"))
	p := in.pod(r.address, "token-a1", config(3, "10.0.0.1:80"))
	eventually(t, "acknowledged", func() bool { return r.acked("ns/a", "a-1") })
	eventually(t, "applied", func() bool { _, n := p.last(); return n >= 1 })
	if n := testutil.ToFloat64(r.metrics.resources.WithLabelValues("set")); n != 0 {
		t.Errorf("%v resources sent, the pod had them all", n)
	}
}

// Nobody gets another Gateway's Config, and without a good token nothing.
func TestTrust(t *testing.T) {
	in := newInstallation(t)
	r := in.replica("one")
	a, b := config(1, "10.0.0.1:80"), config(1, "10.9.9.9:80")
	r.Publish("ns/a", a)
	r.Publish("ns/b", b)
	in.pod(r.address, "token-b1", nil).serves(t, b)

	refused := func(token, want string) {
		t.Helper()
		p := in.pod(r.address, token, nil)
		eventually(t, "refused", func() bool {
			p.Subscriber.mu.Lock()
			defer p.Subscriber.mu.Unlock()
			pause := p.pauses[r.address]
			return pause != nil && strings.Contains(pause.said, want)
		})
		if cfg, _ := p.last(); cfg != nil {
			t.Errorf("token %q got a Config", token)
		}
	}
	refused("token-of-another-audience", "audiences")
	refused("", "audiences")

	// A stream without a client certificate, or with one of another CA.
	stranger := newInstallation(t)
	foreign, err := NewAuthority(stranger.cert, stranger.key, stranger.cert)
	if err != nil {
		t.Fatal(err)
	}
	e := &enrollment{caFile: in.caFile, serverName: serverName}
	for _, c := range []*credential{nil, forge(t, foreign, Identity{"ns/a", "a-1"})} {
		if err := open(t, e, r.address, c); err == nil {
			t.Error("a stream was served")
		}
	}
	// A controller that is not ours is not talked to.
	e = &enrollment{caFile: stranger.caFile, serverName: serverName}
	if err := open(t, e, r.address, nil); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a foreign controller: %v", err)
	}
	e = &enrollment{caFile: in.caFile, serverName: "elsewhere.svc"}
	if err := open(t, e, r.address, nil); err == nil || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("another name: %v", err)
	}
	if n := len(r.State("ns/a").Pods); n != 0 {
		t.Errorf("%d pods of Gateway a", n)
	}
}

// forge is a client certificate that another authority has signed.
func forge(t *testing.T, a *Authority, who Identity) *credential {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := a.signClient(&x509.CertificateRequest{PublicKey: key.Public()}, who)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCredential(key, chain)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// open opens a stream and returns how it ended.
func open(t *testing.T, e *enrollment, address string, c *credential) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := e.dial(address, c)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stream, err := conn.NewStream(ctx, &serviceDesc.Streams[0], subscribeMethod)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(&upstream{Follow: true}); err != nil {
		return err
	}
	var m downstream
	return stream.RecvMsg(&m)
}

// What a pod could not use is told with the version that it had.
func TestRefused(t *testing.T) {
	in := newInstallation(t)
	r := in.replica("one")
	cfg := config(1, "10.0.0.1:80")
	r.Publish("ns/a", cfg)
	p := in.pod(r.address, "token-a1", nil)
	p.set(func() {
		p.applied = Applied{Refused: []Refusal{{Key: "Model/ns/m", Reason: strings.Repeat("x", 5000)}}}
	})
	r.Publish("ns/a", config(2, "10.0.0.2:80"))
	eventually(t, "refused", func() bool {
		s := r.State("ns/a")
		return len(s.Pods) == 1 && len(s.Pods[0].Refused) == 1 && s.Pods[0].Version == s.Version
	})
	got := r.State("ns/a").Pods[0].Refused[0]
	if want := ResourceVersion(config(9, "10.0.0.2:80"), "Model/ns/m"); got.Key != "Model/ns/m" || got.Version != want || len(got.Reason) != maxReason {
		t.Errorf("%+v, want version %s", got, want)
	}

	// A port that cannot be bound is tried again.
	p.set(func() { p.applied = Applied{Error: errors.New("port 80 is taken"), Retry: 20 * time.Millisecond} })
	r.Publish("ns/a", config(3, "10.0.0.3:80"))
	eventually(t, "failed", func() bool {
		s := r.State("ns/a")
		return len(s.Pods) == 1 && s.Pods[0].Error == "port 80 is taken" && s.Pods[0].Version == s.Version
	})
	p.set(func() { p.applied = Applied{} })
	eventually(t, "bound", func() bool { s := r.State("ns/a"); return s.Pods[0].Error == "" })
}

// What this version of the gateway cannot read is refused, and the former Config
// goes on.
func TestUnreadable(t *testing.T) {
	s, err := NewSubscriber(SubscriberOptions{
		Logger: slog.New(slog.DiscardHandler), Controller: "localhost:1", Initial: config(1, "10.0.0.1:80"),
		Apply: func(*routing.Config) Applied { t.Error("applied"); return Applied{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	f := func(r resource, want string) {
		t.Helper()
		next := map[resourceID]*resource{r.ID: &r}
		var removed []resourceID
		for id, old := range s.resources {
			switch {
			case id == r.ID:
			case old.unreadable != nil:
				removed = append(removed, id)
			default:
				next[id] = old
			}
		}
		w := whole{Generation: 2, Version: wholeVersion(next)}
		if err := s.take([]resource{r}, removed, w); err != nil {
			t.Fatal(err)
		}
		if s.ack.Version != w.Version || s.ack.Error == "" || len(s.ack.Refused) != 1 || !strings.Contains(s.ack.Refused[0].Reason, want) {
			t.Errorf("acknowledged %+v, want %q", s.ack, want)
		}
	}
	content := func(k kind, text string) resource {
		return resource{ID: resourceID{k, "HTTPRoute/ns/r"}, Version: contentVersion([]byte(text)), Content: []byte(text)}
	}
	f(content(kindRoute, `{"Key":"HTTPRoute/ns/r","Rules":[{"Teleport":true}]}`), "Teleport")
	f(content(kindRoute, `{"Rules":[]}`), "no key")
	f(content(kindRoute, `[`), "cannot be read")
	f(content("wormhole", `{}`), "older than its controller")
	lie := content(kindRoute, `{"Key":"HTTPRoute/ns/r"}`)
	lie.Content = []byte(`{"Key":"HTTPRoute/ns/q"}`)
	f(lie, "not what its version says")

	if err := s.take(nil, nil, whole{Version: "another"}); err == nil || len(s.held()) != 0 {
		t.Errorf("a whole that is not: %v", err)
	}
	if got := s.Received(); got.Changes != 6 || got.Resources != 5 || got.Bytes == 0 || got.RemovedResources != 2 {
		t.Errorf("received %+v, want 6 changes with 5 resources and 2 removals", got)
	}
}

// Pods hold a stream to every replica; when the one they follow ends, they
// follow another, and nothing is sent twice.
func TestReplicas(t *testing.T) {
	in := newInstallation(t)
	one, two := in.replica("one"), in.replica("two")
	one.SetPeers(map[string]string{"two": two.address})
	two.SetPeers(map[string]string{"one": one.address})
	one.Publish("ns/a", config(1, "10.0.0.1:80"))
	two.Publish("ns/a", config(40, "10.0.0.1:80"))
	p := in.pod(one.address, "token-a1", nil)
	p.set(func() { p.demand = []ModelDemand{{Model: "ns/m", Waiting: 2}} })
	p.Kick()
	eventually(t, "both know", func() bool { return one.acked("ns/a", "a-1") && two.acked("ns/a", "a-1") })
	waiting := func() (n int) {
		in.mu.Lock()
		defer in.mu.Unlock()
		for _, report := range in.reports {
			if len(report.Models) == 1 && report.Models[0].Waiting == 2 {
				n++
			}
		}
		return n
	}
	eventually(t, "both hear of the demand", func() bool { return waiting() >= 2 })

	one.stop()
	eventually(t, "it leaves", func() bool { return len(one.State("ns/a").Pods) == 0 })
	two.Publish("ns/a", config(41, "10.0.0.2:80"))
	p.serves(t, config(41, "10.0.0.2:80"))
	if n := testutil.ToFloat64(two.metrics.resources.WithLabelValues("set")); n != 1 {
		t.Errorf("the second replica sent %v resources, want 1", n)
	}
}

// A pod survives its controller, and its newest stream is the one that counts.
func TestReconnect(t *testing.T) {
	in := newInstallation(t)
	r := in.replica("one")
	r.Publish("ns/a", config(1, "10.0.0.1:80"))
	p := in.pod(r.address, "token-a1", nil)
	p.serves(t, config(1, "10.0.0.1:80"))
	r.stop()
	eventually(t, "it notices", func() bool { return !p.Following() })
	r.Publish("ns/a", config(2, "10.0.0.2:80"))
	r.serve(t, r.address)
	p.serves(t, config(2, "10.0.0.2:80"))

	q := in.pod(r.address, "token-a1", nil)
	q.serves(t, config(2, "10.0.0.2:80"))
	if n := len(r.State("ns/a").Pods); n != 1 {
		t.Errorf("%d streams of one pod", n)
	}
}

// Churn under many pods: everyone ends up with the newest Config.
func TestChurn(t *testing.T) {
	in := newInstallation(t)
	r := in.replica("one")
	var pods []*pod
	for i := range 12 {
		token := fmt.Sprintf("token-%d", i)
		in.tokens[token] = Identity{"ns/a", fmt.Sprintf("pod-%d", i)}
	}
	for i := range 12 {
		pods = append(pods, in.pod(r.address, fmt.Sprintf("token-%d", i), nil))
	}
	last := config(0)
	for i := range 300 {
		last = config(uint64(i), fmt.Sprintf("10.0.%d.1:80", i))
		for n := range i % 7 {
			last.Routes = append(last.Routes, routing.Route{Key: fmt.Sprintf("HTTPRoute/ns/z%d", n), Created: int64(i)})
		}
		r.Publish("ns/a", last)
		if i == 150 {
			pods[0].stop()
		}
	}
	for _, p := range pods[1:] {
		p.serves(t, last)
	}
	eventually(t, "all acknowledge", func() bool {
		s := r.State("ns/a")
		n := 0
		for _, p := range s.Pods {
			if p.Version == s.Version {
				n++
			}
		}
		return n == 11
	})
}

// A big Config comes in parts, one that fits no message but is whole at the end.
func TestBig(t *testing.T) {
	in := newInstallation(t)
	r := in.replica("one")
	cfg := config(1, "10.0.0.1:80")
	for i := range 20000 {
		cfg.Routes = append(cfg.Routes, routing.Route{Key: fmt.Sprintf("HTTPRoute/zz/%06d", i), Rules: []routing.Rule{{Name: strings.Repeat("n", 100)}}})
	}
	r.Publish("ns/a", cfg)
	p := in.pod(r.address, "token-a1", nil)
	p.serves(t, cfg)
	q := in.pod(r.address, "token-a2", cfg) // holds more than one message says
	eventually(t, "acknowledged", func() bool { return r.acked("ns/a", "a-2") })
	eventually(t, "applied", func() bool { _, n := q.last(); return n >= 1 })
	plain := testutil.ToFloat64(r.metrics.bytes.WithLabelValues("plain"))
	wire := testutil.ToFloat64(r.metrics.bytes.WithLabelValues("wire"))
	if wire > plain/5 || plain < 2e6 {
		t.Errorf("%v bytes plain, %v on the wire", plain, wire)
	}
}

// Ages travel, times do not.
func TestDemandAges(t *testing.T) {
	now := time.Now()
	d := demand{Models: []modelDemand{
		{Model: "ns/a", Running: -5, Idle: 1500}, {Model: "ns/b", Idle: -1}, {Model: "ns/c", Idle: 1 << 62},
	}}
	got := d.report(Identity{"ns/g", "p"}, now)
	want := Report{Gateway: "ns/g", Pod: "p", Models: []ModelDemand{
		{Model: "ns/a", LastActive: now.Add(-1500 * time.Millisecond)}, {Model: "ns/b"}, {Model: "ns/c"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
