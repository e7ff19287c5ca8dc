package routing

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
)

// fullConfig uses every part of a Config. It is new on every call.
func fullConfig(t testing.TB) *Config {
	t.Helper()
	w := world{Config{Generation: 7}}
	certPEM, keyPEM := testrig.SelfSigned(t, "a.example.com")
	w.Certificates = []Certificate{{Key: "Secret/ns/tls", CertPEM: certPEM, KeyPEM: keyPEM}}
	w.Listeners = []Listener{
		{Key: "ns/gw/http", Gateway: "ns/gw", Port: 80, Protocol: ProtocolHTTP, Hostname: "*.example.com"},
		{Key: "ns/gw/https", Gateway: "ns/gw", Port: 443, Protocol: ProtocolHTTPS, Certificates: []string{"Secret/ns/tls"}},
	}
	w.model("m", StrategyPrefix, pods(3)...)
	m := &w.Backends[0]
	m.Service, m.ServedModelName, m.Aliases, m.DecodeRequests = "10.96.0.1:80", "served", []string{"alias"}, true
	m.Phase, m.Priority = "Ready", 3
	m.Serverless = &Serverless{ColdStartTimeout: time.Minute, WakeMethods: []string{"POST"}}
	w.model("n", StrategySession, pods(5)[3:]...)
	w.group("g", "m", "n")
	w.Routes = []Route{
		{
			Key: "HTTPRoute/ns/a", Created: 5,
			Listeners: []Attachment{{Listener: "ns/gw/http", Hostnames: []string{"a.example.com"}}},
			Rules: []Rule{{
				Name: "rule",
				Matches: []Match{{
					PathType: PathPrefix, Path: "/a", Method: "GET",
					Headers: []ValueMatch{{Type: ValueExact, Name: "X-A", Value: "1"}},
					Query:   []ValueMatch{{Type: ValueRegex, Name: "q", Value: "1|2"}},
				}},
				Filters: []Filter{
					{RequestHeaders: &HeaderFilter{Set: []Header{{"A", "1"}}, Add: []Header{{"B", "2"}}, Remove: []string{"C"}}},
					{ResponseHeaders: &HeaderFilter{Remove: []string{"D"}}},
					{Rewrite: &RewriteFilter{Hostname: "h", Path: &PathRewrite{ReplacePrefixMatch, "/b"}}},
					{Mirror: &MirrorFilter{Backend: "Model/ns/n", Numerator: 1, Denominator: 10}},
					{CORS: &CORSFilter{
						AllowOrigins: []string{"*"}, AllowMethods: []string{"GET"}, AllowHeaders: []string{"A"},
						ExposeHeaders: []string{"B"}, AllowCredentials: true, MaxAge: time.Minute,
					}},
				},
				Backends: []BackendRef{{
					Backend: "Model/ns/m", Weight: 2,
					Filters: []Filter{{RequestHeaders: &HeaderFilter{Remove: []string{"E"}}}},
				}, {Weight: 1}},
				RequestTimeout: time.Second, BackendTimeout: time.Second,
				Retry: &Retry{Attempts: 2, Codes: []int{502, 503}, Backoff: time.Millisecond},
			}},
		},
		{
			Key: "HTTPRoute/ns/b", Listeners: []Attachment{{Listener: "ns/gw/https"}},
			Rules: []Rule{
				{Filters: []Filter{{Redirect: &RedirectFilter{Scheme: "https", Hostname: "h", Path: &PathRewrite{ReplaceFullPath, "/"}, Port: 443, Status: 301}}}},
				{Matches: []Match{{Headers: []ValueMatch{{Name: HeaderModelName, Value: "g"}}}}, Backends: []BackendRef{{Backend: "Group/ns/g", Weight: 1}}},
				{Matches: []Match{{Path: "/fault"}}, Fault: 500},
			},
		},
	}
	return w.config()
}

func TestCompileSharesWhatIsUnchanged(t *testing.T) {
	cfg := fullConfig(t)
	reg := NewRegistry(Hooks{})
	o := testOptions()
	first := mustCompile(t, cfg, o, nil, reg)

	// Nothing changed: other slices, equal content.
	again := *cfg
	again.Generation++
	again.Routes = append([]Route(nil), cfg.Routes...)
	second := mustCompile(t, &again, o, first, reg)
	if first.Version() != second.Version() || second.Generation() != 8 {
		t.Errorf("version %s -> %s, generation %d", first.Version(), second.Version(), second.Generation())
	}
	for i := range first.listeners {
		if first.listeners[i] != second.listeners[i] {
			t.Errorf("listener %s was compiled again", first.listeners[i].Key)
		}
	}
	for i := range first.backends {
		if first.backends[i] != second.backends[i] {
			t.Errorf("backend %s was compiled again", first.backends[i].Key)
		}
	}

	// One endpoint of n changes.
	changed := *cfg
	changed.EndpointLists = append([]EndpointList(nil), cfg.EndpointLists...)
	changed.EndpointLists[1].Endpoints = pods(6)[3:]
	third := mustCompile(t, &changed, o, second, reg)
	if third.Version() == second.Version() {
		t.Error("the version did not change")
	}
	m, n, g := "Model/ns/m", "Model/ns/n", "Group/ns/g"
	if second.Backend(m) != third.Backend(m) || second.Backend(m).ring != third.Backend(m).ring {
		t.Error("the untouched backend was compiled again")
	}
	if second.Backend(n).ring == third.Backend(n).ring || second.Backend(g) == third.Backend(g) {
		t.Error("the changed backend or its group is the old one")
	}
	if second.Backend(g).memberRing != third.Backend(g).memberRing {
		t.Error("the member ring was built again")
	}
	if second.Backend(n).State != third.Backend(n).State || second.Backend(n).Ready[0] != third.Backend(n).Ready[0] {
		t.Error("what lives across snapshots did not")
	}
	if len(third.Backend(n).Ready) != 3 {
		t.Errorf("%d endpoints, want 3", len(third.Backend(n).Ready))
	}
	for i := range second.listeners {
		if second.listeners[i].tree != third.listeners[i].tree {
			t.Errorf("the match tree of %s was built again", second.listeners[i].Key)
		}
	}
	if second.certificates[0] != third.certificates[0] {
		t.Error("the certificate was parsed again")
	}
	rule := third.Socket(443).Listener(nil).Match(&Request{Path: []byte("/"), Model: []byte("g")}).Rule
	if rule.PickBackend(0).Backend != third.Backend(g) {
		t.Error("the rule leads to the old backend")
	}
	// The old snapshot is as it was.
	if len(second.Backend(n).Ready) != 2 {
		t.Error("the old snapshot changed")
	}
}

// A Model's new alias takes effect although no route changed.
func TestCompileFollowsAliases(t *testing.T) {
	cfg := fullConfig(t)
	cfg.Backends[1].Aliases = []string{"old"}
	reg := NewRegistry(Hooks{})
	first := mustCompile(t, cfg, testOptions(), nil, reg)
	changed := *cfg
	changed.Backends = append([]Backend(nil), cfg.Backends...)
	changed.Backends[1].Aliases = []string{"new"}
	next := mustCompile(t, &changed, testOptions(), first, reg)
	resolve := func(s *Snapshot, model string) string {
		return string(s.Socket(443).Listener(nil).ResolveModel([]byte(model)))
	}
	if resolve(first, "old") != "m" || resolve(first, "new") != "new" {
		t.Error("the first snapshot does not know its alias")
	}
	if resolve(next, "old") != "old" || resolve(next, "new") != "m" {
		t.Error("the second snapshot does not know the new alias")
	}
	if first.Socket(443).Listener(nil).tree != next.Socket(443).Listener(nil).tree {
		t.Error("the match tree was built again")
	}
}

func TestCompileSharesRingWhenOnlyUIDsChange(t *testing.T) {
	cfg := fullConfig(t)
	reg := NewRegistry(Hooks{})
	first := mustCompile(t, cfg, testOptions(), nil, reg)
	changed := *cfg
	changed.EndpointLists = append([]EndpointList(nil), cfg.EndpointLists...)
	changed.EndpointLists[0].Endpoints = pods(3)
	changed.EndpointLists[0].Endpoints[1].UID = "restarted"
	next := mustCompile(t, &changed, testOptions(), first, reg)
	a, b := first.Backend("Model/ns/m"), next.Backend("Model/ns/m")
	if a.ring != b.ring {
		t.Error("the ring was built again")
	}
	if a.Ready[0] != b.Ready[0] || a.Ready[1] == b.Ready[1] {
		t.Error("a restarted pod must be another target, an untouched one the same")
	}
}

// Every field of a Config must reach its version, or a change would be ignored.
func TestVersionCoversEveryField(t *testing.T) {
	cfg := fullConfig(t)
	// A member of an encoding that fullConfig does not show would not be tested.
	leaves := 0
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem(), path)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if name := v.Type().Field(i).Name; name != "Generation" {
					walk(v.Field(i), path+"."+name)
				}
			}
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.Uint8 {
				leaves++
				was := v.Bytes()[0]
				before := digestOf(cfg)
				v.Bytes()[0] ^= 1
				if digestOf(cfg) == before {
					t.Errorf("%s is not covered", path)
				}
				v.Bytes()[0] = was
				return
			}
			for i := range v.Len() {
				walk(v.Index(i), path)
			}
			if v.Len() > 0 { // the length counts too
				before := digestOf(cfg)
				was := reflect.ValueOf(v.Interface())
				v.Set(v.Slice(0, v.Len()-1))
				if digestOf(cfg) == before {
					t.Errorf("the length of %s is not covered", path)
				}
				v.Set(was)
			}
		default:
			leaves++
			before := digestOf(cfg)
			was := reflect.ValueOf(v.Interface())
			switch v.Kind() {
			case reflect.String:
				v.SetString(v.String() + "x")
			case reflect.Bool:
				v.SetBool(!v.Bool())
			case reflect.Uint16, reflect.Uint64:
				v.SetUint(v.Uint() + 1)
			default:
				v.SetInt(v.Int() + 1)
			}
			if digestOf(cfg) == before {
				t.Errorf("%s is not covered", path)
			}
			v.Set(was)
		}
	}
	walk(reflect.ValueOf(cfg).Elem(), "Config")
	if leaves < 100 {
		t.Errorf("only %d fields were tried", leaves)
	}
	mustCompile(t, cfg, testOptions(), nil, NewRegistry(Hooks{})) // the walk put everything back
}

// digestOf is the version of a Config that need not compile.
func digestOf(cfg *Config) digest {
	var e encoder
	for i := range cfg.Listeners {
		e.listener(&cfg.Listeners[i])
	}
	for i := range cfg.Routes {
		e.route(&cfg.Routes[i])
	}
	for i := range cfg.Backends {
		e.backend(&cfg.Backends[i])
	}
	for i := range cfg.EndpointLists {
		e.endpoints(&cfg.EndpointLists[i])
	}
	for i := range cfg.Certificates {
		e.certificate(&cfg.Certificates[i])
	}
	return e.sum()
}

func TestVersionIsTheSameEverywhere(t *testing.T) {
	cfg := fullConfig(t)
	a := mustCompile(t, cfg, testOptions(), nil, NewRegistry(Hooks{}))
	b := mustCompile(t, cfg, testOptions(), nil, NewRegistry(Hooks{}))
	if a.Version() != b.Version() || len(a.Version()) != 32 {
		t.Errorf("versions %q and %q", a.Version(), b.Version())
	}
}

func TestCompileRefuses(t *testing.T) {
	f := func(key, reason string, change func(*Config)) {
		t.Helper()
		cfg := fullConfig(t)
		change(cfg)
		s, err := Compile(cfg, testOptions(), nil, NewRegistry(Hooks{}))
		var ce *CompileError
		if s != nil || !errors.As(err, &ce) {
			t.Fatalf("%s: got %v, %v, want a CompileError", key, s, err)
		}
		if ce.Key != key || !strings.Contains(ce.Reason, reason) {
			t.Errorf("got %q, want key %s and %q", err, key, reason)
		}
	}
	f("Secret/ns/tls", "do not make a pair", func(c *Config) { c.Certificates[0].KeyPEM = []byte("x") })
	f("ns/gw/https", "does not hold", func(c *Config) { c.Certificates = nil })
	f("ns/gw/https", "needs a certificate", func(c *Config) { c.Listeners[1].Certificates = nil })
	f("ns/gw/http", "unknown protocol", func(c *Config) { c.Listeners[0].Protocol = "TCP" })
	f("ns/gw/http", "hostname", func(c *Config) { c.Listeners[0].Hostname = "a.*.com" })
	f("ns/gw/http", "hostname", func(c *Config) { c.Listeners[0].Hostname = "A.com" })
	f("ns/gw/http", "must be sorted", func(c *Config) { c.Listeners[0], c.Listeners[1] = c.Listeners[1], c.Listeners[0] })
	f("ns/gw/https", "HTTP and HTTPS", func(c *Config) { c.Listeners[1].Port = 80 })
	f("ns/gw/https", "belong to listener ns/gw/http already", func(c *Config) {
		c.Listeners[1] = Listener{Key: "ns/gw/https", Port: 80, Protocol: ProtocolHTTP, Hostname: "*.example.com"}
	})
	f("HTTPRoute/ns/a", "does not hold", func(c *Config) { c.Routes[0].Listeners[0].Listener = "ns/gw/other" })
	f("HTTPRoute/ns/a", "hostname", func(c *Config) { c.Routes[0].Listeners[0].Hostnames[0] = "a..b" })
	f("HTTPRoute/ns/a", "does not begin with a slash", func(c *Config) { c.Routes[0].Rules[0].Matches[0].Path = "a" })
	f("HTTPRoute/ns/a", "unknown path type", func(c *Config) { c.Routes[0].Rules[0].Matches[0].PathType = "Glob" })
	f("HTTPRoute/ns/a", "missing closing", func(c *Config) { c.Routes[0].Rules[0].Matches[0].Query[0].Value = "(" })
	f("HTTPRoute/ns/a", "unknown match type", func(c *Config) { c.Routes[0].Rules[0].Matches[0].Headers[0].Type = "Glob" })
	f("HTTPRoute/ns/a", "does not hold Model/ns/x", func(c *Config) { c.Routes[0].Rules[0].Backends[0].Backend = "Model/ns/x" })
	f("HTTPRoute/ns/a", "does not hold the mirror", func(c *Config) { c.Routes[0].Rules[0].Filters[3].Mirror.Backend = "Model/ns/x" })
	f("HTTPRoute/ns/a", "exactly one", func(c *Config) { c.Routes[0].Rules[0].Filters[3].CORS = &CORSFilter{} })
	f("HTTPRoute/ns/b", "no redirect status", func(c *Config) { c.Routes[1].Rules[0].Filters[0].Redirect.Status = 200 })
	f("HTTPRoute/ns/b", "error status", func(c *Config) { c.Routes[1].Rules[2].Fault = 200 })
	f("HTTPRoute/ns/b", "twice", func(c *Config) { c.Routes[0].Key = "HTTPRoute/ns/b" })
	f("Model/ns/m", "unknown strategy", func(c *Config) { c.Backends[1].Strategy = "fastest" })
	f("Model/ns/m", "unknown backend kind", func(c *Config) { c.Backends[1].Kind = "Pool" })
	f("Model/ns/m", "not host:port", func(c *Config) { c.Backends[1].Service = "10.0.0.1" })
	f("Model/ns/m", "endpoint list", func(c *Config) { c.EndpointLists = c.EndpointLists[1:] })
	f("Group/ns/g", "at least one member", func(c *Config) { c.Backends[0].Members = nil })
	f("Group/ns/g", "no Model", func(c *Config) { c.Backends[0].Members[0] = "Group/ns/g" })
	f("Group/ns/g", "not sorted", func(c *Config) { c.Backends[0].Members = []string{"Model/ns/n", "Model/ns/m"} })
	f("Model/ns/n", "not ip:port", func(c *Config) { c.EndpointLists[1].Endpoints[0].Address = "example.com:80" })
	f("Model/ns/n", "unknown state", func(c *Config) { c.EndpointLists[1].Endpoints[0].State = "" })
}

func TestCompileErrorHoldsNoKey(t *testing.T) {
	cfg := fullConfig(t)
	cfg.Certificates[0].CertPEM, _ = testrig.SelfSigned(t, "other")
	_, err := Compile(cfg, testOptions(), nil, NewRegistry(Hooks{}))
	if err == nil || strings.Contains(err.Error(), "PRIVATE") {
		t.Errorf("got %v", err)
	}
}

func TestCertificatesAreParsed(t *testing.T) {
	l := mustCompile(t, fullConfig(t), testOptions(), nil, NewRegistry(Hooks{})).Socket(443).Listener([]byte("x"))
	certs := l.Certificates
	if len(certs) != 1 || certs[0].Leaf == nil || certs[0].Leaf.DNSNames[0] != "a.example.com" {
		t.Errorf("got %d certificates, or one without a leaf", len(certs))
	}
}

// Two entries for one address: the pod that is ready counts.
func TestOneAddressIsOneEndpoint(t *testing.T) {
	var w world
	w.model("m", StrategyDefault,
		Endpoint{Address: "10.0.0.1:80", UID: "old", State: EndpointDraining},
		Endpoint{Address: "10.0.0.1:80", UID: "new", State: EndpointReady},
		Endpoint{Address: "10.0.0.0:80", State: EndpointNotReady})
	b := backendOf(t, &w, testOptions(), "Model/ns/m")
	if len(b.Ready) != 1 || b.Ready[0].UID != "new" || len(b.Draining) != 0 || b.NotReady != 1 {
		t.Errorf("ready %v, draining %v, %d not ready", addresses(b.Ready), addresses(b.Draining), b.NotReady)
	}
}
