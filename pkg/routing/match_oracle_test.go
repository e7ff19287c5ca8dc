package routing

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// chooser makes Configs and requests out of numbers, so that random tests and
// the fuzzer share one generator. The vocabularies are small: most choices
// collide with others, which is where precedence matters.
type chooser struct{ next func(n int) int }

func (c chooser) of(words ...string) string { return words[c.next(len(words))] }

func (c chooser) path() string {
	if c.next(40) == 39 {
		return "/" + strings.Repeat("a/", 1+c.next(200))
	}
	p := ""
	for range c.next(4) {
		p += "/" + c.of("a", "b", "ab", "v1", "chat", "")
	}
	return p + c.of("", "/")
}

func (c chooser) host() string {
	return c.of("a.example.com", "b.example.com", "x.a.example.com", "y.x.a.example.com", "example.com", "other.org", "com", "")
}

func (c chooser) valueMatches(names []string) []ValueMatch {
	var out []ValueMatch
	for range max(0, c.next(4)-1) {
		m := ValueMatch{Name: c.of(names...), Value: c.of("1", "2", "three", "a b")}
		if c.next(8) == 0 {
			m.Type, m.Value = ValueRegex, c.of("[0-9]", "t.*", "a|three", ".+")
		}
		out = append(out, m)
	}
	return out
}

var (
	headerNames = []string{"X-Tenant", "x-tenant", "X-Beta", "X-Gateway-Model-Name", "x-gateway-model-name", "Origin"}
	queryNames  = []string{"q", "Q", "a b", "tier"}
)

func (c chooser) match() Match {
	m := Match{Method: c.of("", "", "GET", "POST")}
	switch c.next(8) {
	case 0:
	case 1:
		m.PathType, m.Path = PathRegex, c.of("/a.*", "/(a|b)/?", "/v1/[a-z]+", "/.*")
	case 2, 3:
		m.PathType, m.Path = PathExact, exactPath(c.path())
	default:
		m.PathType, m.Path = PathPrefix, exactPath(c.path())
	}
	m.Headers = c.valueMatches(headerNames)
	m.Query = c.valueMatches(queryNames)
	return m
}

func exactPath(p string) string {
	if p == "" {
		return "/"
	}
	return p
}

// config is routes on one listener, some of them old, some with CORS.
func (c chooser) config(routes int) *Config {
	cfg := &Config{Listeners: []Listener{{Key: "ns/gw/http", Gateway: "ns/gw", Port: 80, Protocol: ProtocolHTTP}}}
	for i := range routes {
		r := Route{Key: fmt.Sprintf("HTTPRoute/ns/r%04d", i), Created: int64(c.next(3))}
		a := Attachment{Listener: "ns/gw/http"}
		for range c.next(3) {
			a.Hostnames = append(a.Hostnames, c.of("a.example.com", "*.example.com", "*.a.example.com", "*.com", "other.org"))
		}
		r.Listeners = []Attachment{a}
		for range 1 + c.next(3) {
			var rule Rule
			for range c.next(4) {
				rule.Matches = append(rule.Matches, c.match())
			}
			if c.next(2) == 0 {
				rule.Filters = []Filter{{CORS: &CORSFilter{AllowOrigins: []string{"*"}}}}
			}
			r.Rules = append(r.Rules, rule)
		}
		cfg.Routes = append(cfg.Routes, r)
	}
	return cfg
}

func (c chooser) request() *naiveRequest {
	r := &naiveRequest{
		method: c.of("GET", "POST", "PUT"), host: c.host(), path: exactPath(c.path()),
		headers: fields{}, model: c.of("", "1", "2", "three", "a b"),
	}
	if c.next(30) == 29 {
		r.path = c.of("*", "a")
	}
	for range c.next(3) {
		r.headers[CanonicalHeaderName(c.of("X-Tenant", "X-Beta", "Origin"))] = c.of("1", "2", "three", "a b", "")
	}
	for range c.next(4) {
		if r.query != "" {
			r.query += "&"
		}
		r.query += c.of("q", "%71", "Q", "a%20b", "a+b", "tier", "") + c.of("", "=", "=1", "=%31", "=2", "=a%20b", "=th%72ee", "=three")
	}
	return r
}

// agree compares the two matchers on one request.
func agree(t *testing.T, cfg *Config, l *CompiledListener, r *naiveRequest) {
	t.Helper()
	req := &Request{
		Method: []byte(r.method), Host: []byte(r.host), Path: []byte(r.path),
		Query: []byte(r.query), Headers: r.headers,
	}
	if r.model != "" {
		req.Model = []byte(r.model)
	}
	compare := func(what string, got *MatchedRule, want *naiveHit) {
		t.Helper()
		switch {
		case got == nil && want == nil:
		case got == nil || want == nil:
			t.Fatalf("%s of %+v: got %+v, want %+v", what, r, got, want)
		case got.Rule.Route != want.route.Key || got.Rule.Index != want.rule:
			t.Fatalf("%s of %+v: got %s rule %d, want %+v", what, r, got.Rule.Route, got.Rule.Index, want)
		case len(got.Prefix) > len(r.path) || got.Prefix != r.path[:len(got.Prefix)]:
			t.Fatalf("%s of %+v: prefix %q is not of the path", what, r, got.Prefix)
		}
	}
	compare("match", l.Match(req), naiveMatch(cfg, l.Key, r, ""))
	if r.headers["Origin"] != "" {
		compare("preflight", l.MatchPreflight(req, req.Method), naiveMatch(cfg, l.Key, r, r.method))
	}
}

func TestMatchAgreesWithLinearScan(t *testing.T) {
	rnd := randomSource(t)
	c := chooser{rnd.IntN}
	hits, total := 0, 0
	for range 200 {
		cfg := c.config(1 + rnd.IntN(12))
		s := mustCompile(t, cfg, testOptions(), nil, NewRegistry(Hooks{}))
		l := s.Socket(80).Listener([]byte("any"))
		for range 500 {
			r := c.request()
			agree(t, cfg, l, r)
			total++
			if naiveMatch(cfg, l.Key, r, "") != nil {
				hits++
			}
		}
	}
	t.Logf("%d requests, %d of them matched", total, hits)
	if hits < total/10 || hits > total*9/10 {
		t.Errorf("%d of %d requests matched: the generator says little", hits, total)
	}
}

// Many rules on one path go through the value tables.
func TestMatchAgreesWhereManyShareAPath(t *testing.T) {
	rnd := randomSource(t)
	c := chooser{rnd.IntN}
	for range 20 {
		cfg := c.config(60)
		for i := range cfg.Routes {
			cfg.Routes[i].Listeners[0].Hostnames = nil
			for j := range cfg.Routes[i].Rules {
				for k := range cfg.Routes[i].Rules[j].Matches {
					m := &cfg.Routes[i].Rules[j].Matches[k]
					m.PathType, m.Path = PathExact, "/v1"
				}
			}
		}
		l := mustCompile(t, cfg, testOptions(), nil, NewRegistry(Hooks{})).Socket(80).Listener(nil)
		for range 300 {
			r := c.request()
			r.path = "/v1"
			agree(t, cfg, l, r)
		}
	}
}

func FuzzMatch(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		seed := make([]byte, 200)
		for i := range seed {
			seed[i] = byte(rnd.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := chooser{func(n int) int {
			if len(data) == 0 || n <= 1 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b) % n
		}}
		cfg := c.config(1 + c.next(4))
		s := mustCompile(t, cfg, testOptions(), nil, NewRegistry(Hooks{}))
		for range 3 {
			agree(t, cfg, s.Socket(80).Listener(nil), c.request())
		}
	})
}
