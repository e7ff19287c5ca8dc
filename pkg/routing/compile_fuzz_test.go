package routing

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"flexinfer.ai/gateway/internal/testrig"
)

// onePair is a certificate for Configs made by chooser.world.
func onePair(t testing.TB) Certificate {
	t.Helper()
	certPEM, keyPEM := testrig.SelfSigned(t, "a.example.com")
	return Certificate{Key: "Secret/ns/a", CertPEM: certPEM, KeyPEM: keyPEM}
}

// seldom is true once in 256 choices.
func (c chooser) seldom() bool { return c.next(32) == 31 && c.next(8) == 7 }

// world is a Config of every kind of resource. Most are in order; some have a
// fault, and the references between them mostly lead somewhere.
func (c chooser) world(pair Certificate) *Config {
	cfg := c.config(1 + c.next(4))
	cfg.Certificates = []Certificate{pair}
	if c.seldom() {
		cfg.Certificates[0].KeyPEM = []byte(c.of("", "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"))
	}
	cfg.Listeners = nil
	for i := range 1 + c.next(3) {
		cfg.Listeners = append(cfg.Listeners, c.listener(i))
	}
	for i := range c.next(3) {
		cfg.EndpointLists = append(cfg.EndpointLists, c.endpointList(i))
	}
	for i := range c.next(5) {
		cfg.Backends = append(cfg.Backends, c.backend(i))
	}
	for i := range cfg.Routes {
		c.wire(&cfg.Routes[i])
	}
	if c.seldom() {
		c.disorder(cfg)
	}
	if c.next(2) == 0 {
		return mended(cfg)
	}
	return cfg
}

// mended is cfg without what Compile refuses, as far as that helps.
func mended(cfg *Config) *Config {
	for range 20 {
		var refused *CompileError
		if _, err := Compile(cfg, testOptions(), nil, NewRegistry(Hooks{})); !errors.As(err, &refused) {
			break
		}
		rest, found := cfg.Without(refused.Key)
		if !found {
			break
		}
		cfg = rest
	}
	return cfg
}

func (c chooser) listener(i int) Listener {
	l := Listener{
		Key: fmt.Sprint("ns/gw/", i), Gateway: "ns/gw", Port: uint16(80 + c.next(2)), Protocol: ProtocolHTTP,
		Hostname: c.of("", "a.example.com", "*.example.com", "*.com"),
	}
	if c.next(4) == 3 {
		l.Port, l.Protocol, l.Certificates = 443, ProtocolHTTPS, []string{"Secret/ns/a"}
	}
	if c.seldom() {
		l.Certificates = []string{c.of("Secret/ns/none", "Secret/ns/a")}
	}
	if c.seldom() {
		l.Protocol = Protocol(c.of("TCP", "", "HTTPS"))
	}
	if c.seldom() {
		l.Hostname = c.of("*", "A.example.com", "a..b", "*.", "x*y", "a/b", ".", strings.Repeat("a.", 200))
	}
	if c.seldom() {
		l.Port = uint16(c.next(2))
	}
	return l
}

func (c chooser) endpointList(i int) EndpointList {
	list := EndpointList{Key: fmt.Sprint("Model/ns/", i)}
	for range c.next(5) {
		e := Endpoint{Address: fmt.Sprintf("10.0.0.%d:80", c.next(4)), UID: c.of("", "u", "v"), State: EndpointReady}
		switch c.next(6) {
		case 4:
			e.State = EndpointDraining
		case 5:
			e.State = EndpointNotReady
		}
		if c.seldom() {
			e.Address = c.of("", "a:80", "10.0.0.1", "[::1]:8", "10.0.0.1:99999")
		}
		if c.seldom() {
			e.State = EndpointState(c.of("", "Dead"))
		}
		list.Endpoints = append(list.Endpoints, e)
	}
	return list
}

// backend is, in the order of keys, a group for the first numbers and a Model or
// a Service for the others.
func (c chooser) backend(i int) Backend {
	b := Backend{
		Key: fmt.Sprint("Model/ns/", i), Kind: BackendModel, Namespace: "ns", Name: fmt.Sprint(i),
		Strategy:        Strategy(c.of("", "default", "session-affinity", "prefix", "least-loaded")),
		Endpoints:       c.of("", "Model/ns/0", "Model/ns/1", "Model/ns/0", "Model/ns/1"),
		Service:         c.of("", "10.96.0.1:80", "chat.ns.svc:80"),
		ServedModelName: c.of("", "served"), Priority: c.next(3),
	}
	switch c.next(8) {
	case 0:
		b.Kind, b.Endpoints, b.Service = BackendGroup, "", ""
		for j := i + 1; j < i+3; j++ {
			b.Members = append(b.Members, fmt.Sprint("Model/ns/", j))
		}
	case 1:
		b.Kind = BackendService
	case 2:
		b.Aliases = []string{c.of("1", "2", "served")}
	}
	if c.seldom() {
		b.Members = append(b.Members, c.of(b.Key, "Model/ns/0", "none"))
	}
	if c.seldom() {
		b.Kind = BackendKind(c.of("", "Pod", "Group"))
	}
	if c.seldom() {
		b.Strategy = Strategy(c.of("random", "Prefix"))
	}
	if c.seldom() {
		b.Service = c.of(":", "no-port", "a:b:c", "[::1")
	}
	if c.seldom() {
		b.Endpoints = "none"
	}
	return b
}

// wire attaches a route to listeners and gives its rules backends and filters.
func (c chooser) wire(r *Route) {
	hostnames := r.Listeners[0].Hostnames
	r.Listeners = nil
	for i := range 1 + c.next(2) {
		r.Listeners = append(r.Listeners, Attachment{Listener: fmt.Sprint("ns/gw/", i), Hostnames: hostnames})
	}
	if r.Listeners = r.Listeners[:len(r.Listeners):len(r.Listeners)]; c.seldom() {
		r.Listeners[0].Hostnames = []string{c.of("", "*", "A", "a.example.com", "*.*.com")}
	}
	for i := range r.Rules {
		rule := &r.Rules[i]
		for range c.next(3) {
			rule.Backends = append(rule.Backends, BackendRef{
				Backend: c.of("", "Model/ns/0", "Model/ns/1", "Model/ns/2"), Weight: int32(c.next(6)) - int32(c.next(32)/31),
			})
		}
		if c.next(4) == 0 {
			rule.Filters = append(rule.Filters, c.filter())
		}
		if c.seldom() {
			rule.Fault = []int{200, 500, 404, 600, -1}[c.next(5)]
		}
		if c.seldom() && len(rule.Matches) > 0 {
			m := &rule.Matches[0]
			m.PathType, m.Path = PathType(c.of("", "Exact", "Glob", "RegularExpression")), c.of("", "a", "(", "(?i)/A", "/a|/b", ")(", "//", "/a//")
		}
		if c.seldom() && len(rule.Matches) > 0 {
			rule.Matches[0].Headers = []ValueMatch{{ValueType(c.of("", "Exact", "RegularExpression", "Prefix")), c.of("", "X-Tenant"), c.of("1", "[", "")}}
		}
	}
}

func (c chooser) filter() (f Filter) {
	switch c.next(7) {
	case 0:
		f.RequestHeaders = &HeaderFilter{Set: []Header{{"X-A", "1"}}, Remove: []string{"X-B"}}
	case 1:
		f.ResponseHeaders = &HeaderFilter{Add: []Header{{"X-A", "1"}}}
	case 2:
		f.Redirect = &RedirectFilter{Status: []int{301, 302, 200, 0}[c.next(4)], Hostname: "h"}
	case 3:
		f.Rewrite = &RewriteFilter{Path: &PathRewrite{PathRewriteType(c.of("ReplaceFullPath", "ReplacePrefixMatch", "No")), c.of("", "/", "/x")}}
	case 4:
		f.Mirror = &MirrorFilter{Backend: c.of("Model/ns/0", "Model/ns/1", "none", ""), Numerator: int32(c.next(3)) - 1, Denominator: int32(c.next(3))}
	case 5:
		f.CORS = &CORSFilter{AllowOrigins: []string{c.of("*", "https://*.a", "https://a", "://")}}
	}
	if c.seldom() {
		f.CORS = &CORSFilter{}
	}
	return f
}

// disorder breaks the promise that lists are sorted and hold each key once.
func (c chooser) disorder(cfg *Config) {
	switch c.next(5) {
	case 0:
		slices.Reverse(cfg.Listeners)
	case 1:
		cfg.Routes = append(cfg.Routes, cfg.Routes[0])
	case 2:
		cfg.Certificates = append(cfg.Certificates, cfg.Certificates[0])
	case 3:
		cfg.Routes[0].Key = ""
	case 4:
		slices.Reverse(cfg.Backends)
	}
}

// script is a source of choices that ends in zeros.
func script(data []byte) chooser {
	return chooser{func(n int) int {
		if len(data) == 0 || n <= 1 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b) % n
	}}
}

// FuzzCompile compiles Configs of every kind of resource, with and without
// faults, after one another: see checkCompile.
func FuzzCompile(f *testing.F) {
	rnd, pair := randomSeeds(), onePair(f)
	for range 30 {
		f.Add(rnd(600))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4<<10 {
			return
		}
		half := len(data) / 2
		first, again := script(data[:half]).world(pair), script(data[:half]).world(pair)
		reg := NewRegistry(Hooks{})
		before := checkCompile(t, first, nil, reg, script(data))
		if !reflect.DeepEqual(first, again) {
			t.Fatalf("Compile changed its Config from %+v to %+v", again, first)
		}
		checkCompile(t, script(data[half:]).world(pair), before, reg, script(data))
	})
}

// FuzzCompileJSON compiles what a snapshot file may hold: see checkCompile.
func FuzzCompileJSON(f *testing.F) {
	rnd, pair := randomSeeds(), onePair(f)
	seeds := []*Config{{}, fullConfig(f)}
	for range 8 {
		seeds = append(seeds, script(rnd(300)).world(pair))
	}
	for _, cfg := range seeds {
		b, err := json.Marshal(cfg)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, rnd(100))
	}
	f.Fuzz(func(t *testing.T, text, requests []byte) {
		var cfg Config
		if len(text) > 16<<10 || json.Unmarshal(text, &cfg) != nil {
			return
		}
		reg := NewRegistry(Hooks{})
		base := mustCompile(t, script(nil).world(pair), testOptions(), nil, reg)
		checkCompile(t, &cfg, base, reg, script(requests))
	})
}

// The generator has to make both what compiles and what is refused.
func TestRandomConfigsSaySomething(t *testing.T) {
	rnd, pair := randomSeeds(), onePair(t)
	refused := map[string]bool{}
	compiled := 0
	for range 1000 {
		_, err := Compile(script(rnd(400)).world(pair), testOptions(), nil, NewRegistry(Hooks{}))
		var why *CompileError
		if errors.As(err, &why) {
			refused[regexp.MustCompile(`[0-9]+|"[^"]*"`).ReplaceAllString(why.Reason, "#")] = true
		} else {
			compiled++
		}
	}
	t.Logf("%d of 1000 Configs compile, the others are refused for %d reasons", compiled, len(refused))
	if compiled < 100 || compiled > 900 || len(refused) < 20 {
		t.Errorf("%d of 1000 compile, reasons %v", compiled, refused)
	}
}

// randomSeeds makes seed inputs, the same ones each time.
func randomSeeds() func(n int) []byte {
	state := uint64(0x9e3779b97f4a7c15)
	return func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			state ^= state << 13
			state ^= state >> 7
			state ^= state << 17
			b[i] = byte(state >> 32)
		}
		return b
	}
}

// checkCompile holds that Compile fails as a whole with a CompileError and
// without touching prev, or gives a Snapshot that routes as a linear scan over
// the Config does, that is the same as one made from nothing, and that the next
// Compile of the Config shares whole. It returns the Snapshot then in force.
func checkCompile(t *testing.T, cfg *Config, prev *Snapshot, reg *Registry, requests chooser) *Snapshot {
	t.Helper()
	o := testOptions()
	var was Snapshot
	if prev != nil {
		was = *prev
	}
	s, err := Compile(cfg, o, prev, reg)
	if prev != nil && !reflect.DeepEqual(shallow(&was), shallow(prev)) {
		t.Fatal("Compile changed the Snapshot before")
	}
	if err != nil {
		var refused *CompileError
		if s != nil || !errors.As(err, &refused) || refused.Key == "" || refused.Reason == "" {
			t.Fatalf("a Snapshot %v with the error %#v", s, err)
		}
		checkWithout(t, cfg, refused)
		return prev
	}
	scratch := mustCompile(t, cfg, o, nil, NewRegistry(Hooks{}))
	if scratch.Version() != s.Version() {
		t.Fatalf("version %s after another Snapshot, %s from nothing", s.Version(), scratch.Version())
	}
	checkRouting(t, cfg, s, scratch, requests)
	next := mustCompile(t, cfg, o, s, reg)
	if !slices.Equal(next.listeners, s.listeners) || !slices.Equal(next.backends, s.backends) ||
		!slices.Equal(next.routes, s.routes) || !slices.Equal(next.endpoints, s.endpoints) {
		t.Fatal("an equal Config was compiled anew")
	}
	return s
}

// shallow is what a Snapshot names, by identity.
func shallow(s *Snapshot) any {
	return []any{s.version, fmt.Sprintf("%p %p %p %p %p", s.sockets, s.backends, s.routes, s.endpoints, s.listeners), len(s.byPort), len(s.byKey)}
}

// checkWithout leaves out what is refused until the rest compiles, as the data
// plane does: it has to end, and each step has to help.
func checkWithout(t *testing.T, cfg *Config, refused *CompileError) {
	t.Helper()
	reg := NewRegistry(Hooks{})
	for range len(cfg.Listeners) + len(cfg.Routes) + len(cfg.Backends) + len(cfg.EndpointLists) + len(cfg.Certificates) + 1 {
		rest, found := cfg.Without(refused.Key)
		if !found {
			return
		}
		_, err := Compile(rest, testOptions(), nil, reg)
		if err == nil {
			return
		}
		if !errors.As(err, &refused) {
			t.Fatalf("%#v", err)
		}
		cfg = rest
	}
	if strings.Contains(refused.Reason, "twice") || strings.Contains(refused.Reason, "sorted") {
		return // endpoint lists keep their place: the Config is refused whole
	}
	t.Fatalf("leaving out %s again and again does not help: %s", refused.Key, refused.Reason)
}

// checkRouting asks two Snapshots of cfg and a linear scan the same questions.
func checkRouting(t *testing.T, cfg *Config, s, scratch *Snapshot, c chooser) {
	t.Helper()
	for range 6 {
		r := c.request()
		for _, k := range s.Sockets() {
			l := k.Listener([]byte(r.host))
			want := naiveListener(cfg, k.Port, r.host)
			if (l == nil) != (want == "") || l != nil && l.Key != want {
				t.Fatalf("host %q on port %d: listener %v, want %q", r.host, k.Port, l, want)
			}
		}
		for i := range cfg.Listeners {
			l := &cfg.Listeners[i]
			compiled := s.listeners[i]
			if compiled.Key != l.Key {
				t.Fatalf("listener %s became %s", l.Key, compiled.Key)
			}
			agree(t, cfg, compiled, r)
			agree(t, cfg, scratch.listeners[i], r)
		}
	}
}

// naiveListener is the key of the listener with the most specific hostname.
func naiveListener(cfg *Config, port uint16, host string) (key string) {
	best := -1
	for i := range cfg.Listeners {
		l := &cfg.Listeners[i]
		rank := len(l.Hostname)
		if l.Hostname != "" && l.Hostname[0] != '*' {
			rank = 1000
		}
		if l.Port == port && naiveHost(l.Hostname, host) && rank > best {
			best, key = rank, l.Key
		}
	}
	return key
}
