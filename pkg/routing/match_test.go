package routing

import (
	"strings"
	"testing"
)

// listenersOf compiles listeners on port 80 with the given hostnames.
func listenersOf(t *testing.T, hostnames ...string) *Socket {
	t.Helper()
	var w world
	for _, h := range hostnames {
		w.Listeners = append(w.Listeners, Listener{Key: "ns/gw/" + h, Port: 80, Protocol: ProtocolHTTP, Hostname: h})
	}
	return mustCompile(t, w.config(), testOptions(), nil, NewRegistry(Hooks{})).Socket(80)
}

func TestListenerByHost(t *testing.T) {
	f := func(hostnames, host, want string) {
		t.Helper()
		var list []string
		for h := range strings.SplitSeq(hostnames, " ") {
			list = append(list, strings.Replace(h, "-", "", 1))
		}
		l := listenersOf(t, list...).Listener([]byte(host))
		got := "none"
		if l != nil {
			got = l.Hostname
		}
		if got != want {
			t.Errorf("%q among %q: got %q, want %q", host, hostnames, got, want)
		}
	}
	// "-" stands for the listener without a hostname.
	all := "- *.example.com *.a.example.com x.a.example.com example.com"
	f(all, "x.a.example.com", "x.a.example.com")
	f(all, "y.a.example.com", "*.a.example.com")
	f(all, "z.y.a.example.com", "*.a.example.com")
	f(all, "a.example.com", "*.example.com")
	f(all, "b.example.com", "*.example.com")
	f(all, "example.com", "example.com")
	f(all, "notexample.com", "")
	f(all, ".example.com", "")
	f(all, "other.org", "")
	f(all, "", "")
	f("*.example.com", "example.com", "none")
	f("*.example.com", ".example.com", "none")
	f("*.example.com", "a.example.com.", "none")
	f("*.example.com", strings.Repeat("a.", 5_000)+"example.com", "*.example.com")
	f("example.com", "a.example.com", "none")
	f("example.com", "", "none")
}

// rulesOf compiles one route whose rules have one match each.
func rulesOf(t *testing.T, matches ...Match) *CompiledListener {
	t.Helper()
	var w world
	w.Listeners = []Listener{{Key: "ns/gw/http", Port: 80, Protocol: ProtocolHTTP}}
	r := Route{Key: "HTTPRoute/ns/r", Listeners: []Attachment{{Listener: "ns/gw/http"}}}
	for _, m := range matches {
		r.Rules = append(r.Rules, Rule{Matches: []Match{m}})
	}
	w.Routes = []Route{r}
	return mustCompile(t, w.config(), testOptions(), nil, NewRegistry(Hooks{})).Socket(80).Listener(nil)
}

func TestMatchPaths(t *testing.T) {
	l := rulesOf(t,
		Match{Path: "/"},
		Match{Path: "/abc"},
		Match{Path: "/abc/def/"},
		Match{PathType: PathExact, Path: "/one"},
		Match{PathType: PathExact, Path: "/abc"},
		Match{PathType: PathRegex, Path: "/v[0-9]+/.*"},
		Match{Path: "/v1/chat/completions/deep"},
	)
	f := func(path string, rule int, prefix string) {
		t.Helper()
		m := l.Match(&Request{Method: []byte("GET"), Path: []byte(path)})
		if m == nil || m.Rule.Index != rule || m.Prefix != prefix {
			t.Errorf("%s: got %+v, want rule %d with prefix %q", path, m, rule, prefix)
		}
	}
	f("/", 0, "")
	f("/x", 0, "")
	f("/one", 3, "")
	f("/one/", 0, "") // exact is literal
	f("/One", 0, "")
	f("/abc", 4, "")
	f("/abc/", 1, "/abc")
	f("/abcd", 0, "")
	f("/abc/d", 1, "/abc")
	f("/abc/def", 2, "/abc/def")
	f("/abc/def/", 2, "/abc/def")
	f("/abc/def/x/y", 2, "/abc/def")
	f("/abc/defg", 1, "/abc")
	f("/abc//def", 1, "/abc")
	f("/v1/x", 5, "")
	f("/v1/chat/completions/deep/x", 5, "") // expressions come before prefixes
	f("/x/v1/x", 0, "")                     // and match whole paths
}

func TestMatchConditions(t *testing.T) {
	l := rulesOf(t,
		Match{Path: "/h", Headers: []ValueMatch{{Name: "x-tenant", Value: "A"}}},
		Match{Path: "/h", Headers: []ValueMatch{{Name: "X-TENANT", Value: "A"}, {Name: "X-Beta", Value: "1"}}},
		Match{Path: "/h", Query: []ValueMatch{{Name: "q", Value: "x y"}}},
		Match{Path: "/h", Method: "POST"},
		// Of two conditions on one name the first counts, for precedence too.
		Match{Path: "/h", Headers: []ValueMatch{{Name: "X-Dup", Value: "1"}, {Name: "x-dup", Value: "2"}}},
	)
	f := func(method, query string, h fields, want int) {
		t.Helper()
		m := l.Match(&Request{Method: []byte(method), Path: []byte("/h"), Query: []byte(query), Headers: h})
		got := -1
		if m != nil {
			got = m.Rule.Index
		}
		if got != want {
			t.Errorf("%s ?%s %v: got rule %d, want %d", method, query, h, got, want)
		}
	}
	f("GET", "", nil, -1)
	f("GET", "", fields{"X-Tenant": "A"}, 0)
	f("GET", "", fields{"X-Tenant": "a"}, -1)
	f("GET", "", fields{"X-Tenant": "A", "X-Beta": "1"}, 1)
	f("GET", "q=x%20y", nil, 2)
	f("GET", "q=other&q=x%20y", nil, -1) // the first value counts
	f("GET", "Q=x%20y", nil, -1)
	f("GET", "q=x%20y", fields{"X-Tenant": "A"}, 0) // headers before query
	f("POST", "q=x%20y", fields{"X-Tenant": "A"}, 3)
	f("GET", "", fields{"X-Dup": "1"}, 4)
	f("GET", "", fields{"X-Dup": "2"}, -1)
}

func TestMatchPrefersOldThenNameThenFirst(t *testing.T) {
	f := func(want string, routes ...Route) {
		t.Helper()
		var w world
		w.Listeners = []Listener{{Key: "ns/gw/http", Port: 80, Protocol: ProtocolHTTP}}
		for _, r := range routes {
			r.Listeners = []Attachment{{Listener: "ns/gw/http"}}
			r.Rules = []Rule{{}, {}}
			w.Routes = append(w.Routes, r)
		}
		m := mustCompile(t, w.config(), testOptions(), nil, NewRegistry(Hooks{})).Socket(80).Listener(nil).Match(&Request{Path: []byte("/")})
		if m.Rule.Route != want || m.Rule.Index != 0 {
			t.Errorf("got %s rule %d, want %s rule 0", m.Rule.Route, m.Rule.Index, want)
		}
	}
	f("HTTPRoute/a/z", Route{Key: "HTTPRoute/a/z", Created: 1}, Route{Key: "HTTPRoute/b/a", Created: 1})
	f("HTTPRoute/b/a", Route{Key: "HTTPRoute/a/z", Created: 2}, Route{Key: "HTTPRoute/b/a", Created: 1})
	f("HTTPRoute/ns/a", Route{Key: "HTTPRoute/ns/b"}, Route{Key: "HTTPRoute/ns/a"})
}

func TestHostnameClassesFallThrough(t *testing.T) {
	var w world
	w.Listeners = []Listener{{Key: "ns/gw/http", Port: 80, Protocol: ProtocolHTTP}}
	add := func(name, path string, hostnames ...string) {
		w.Routes = append(w.Routes, Route{
			Key:       "HTTPRoute/ns/" + name,
			Listeners: []Attachment{{Listener: "ns/gw/http", Hostnames: hostnames}},
			Rules:     []Rule{{Matches: []Match{{Path: path}}}},
		})
	}
	add("exact", "/exact", "a.b.example.com")
	add("long", "/long", "*.b.example.com")
	add("short", "/short", "*.example.com")
	add("any", "/any")
	add("root-short", "/", "*.example.com")
	l := mustCompile(t, w.config(), testOptions(), nil, NewRegistry(Hooks{})).Socket(80).Listener(nil)
	f := func(host, path, want string) {
		t.Helper()
		got := "none"
		if m := l.Match(&Request{Host: []byte(host), Path: []byte(path)}); m != nil {
			got = strings.TrimPrefix(m.Rule.Route, "HTTPRoute/ns/")
		}
		if got != want {
			t.Errorf("%s%s: got %s, want %s", host, path, got, want)
		}
	}
	f("a.b.example.com", "/exact", "exact")
	f("a.b.example.com", "/long", "long")
	f("a.b.example.com", "/short", "short")
	f("a.b.example.com", "/any", "root-short") // the wildcard's own prefix comes first
	f("other.org", "/any", "any")
	f("other.org", "/short", "none")
	f("x.b.example.com", "/exact", "root-short")
}

func TestMatchPreflight(t *testing.T) {
	var w world
	w.Listeners = []Listener{{Key: "ns/gw/http", Port: 80, Protocol: ProtocolHTTP}}
	cors := []Filter{{CORS: &CORSFilter{AllowOrigins: []string{"*"}}}}
	w.Routes = []Route{{
		Key: "HTTPRoute/ns/r", Listeners: []Attachment{{Listener: "ns/gw/http"}},
		Rules: []Rule{
			{Matches: []Match{{Path: "/v1", Method: "PUT", Headers: []ValueMatch{{Name: HeaderModelName, Value: "m"}}}}},
			{Matches: []Match{{Path: "/v1", Method: "POST", Headers: []ValueMatch{{Name: "x-gateway-model-name", Value: "m"}}}}, Filters: cors},
			{Matches: []Match{{Path: "/v1", Headers: []ValueMatch{{Name: "Origin", Value: "https://a"}}}}, Filters: cors},
			{Matches: []Match{{Path: "/v1", Headers: []ValueMatch{{Name: "X-Custom", Value: "1"}}, Query: []ValueMatch{{Name: "q", Value: "1"}}}}, Filters: cors},
			{Matches: []Match{{Path: "/"}}},
		},
	}}
	l := mustCompile(t, w.config(), testOptions(), nil, NewRegistry(Hooks{})).Socket(80).Listener(nil)
	f := func(method, query, origin string, want int) {
		t.Helper()
		m := l.MatchPreflight(&Request{
			Method: []byte("OPTIONS"), Path: []byte("/v1/x"), Query: []byte(query),
			Headers: fields{"Origin": origin},
		}, []byte(method))
		got := -1
		if m != nil {
			got = m.Rule.Index
		}
		if got != want {
			t.Errorf("%s ?%s from %s: got rule %d, want %d", method, query, origin, got, want)
		}
	}
	f("POST", "", "https://b", 1) // the model is not asked for
	f("PUT", "", "https://b", -1) // the rule for PUT has no CORS filter
	f("PUT", "", "https://a", 2)  // a preflight does carry its origin
	f("PUT", "q=1", "https://b", 3)
	f("POST", "q=1", "https://a", 1)
}

func TestResolveModel(t *testing.T) {
	var w world
	w.Listeners = []Listener{
		{Key: "ns/gw/http", Port: 80, Protocol: ProtocolHTTP},
		{Key: "ns/gw/plain", Port: 81, Protocol: ProtocolHTTP},
	}
	w.model("llama", StrategyDefault)
	w.model("qwen", StrategyDefault)
	w.model("member", StrategyDefault)
	w.model("elsewhere", StrategyDefault)
	w.group("tts", "member")
	b := w.Backends
	b[0].ServedModelName, b[0].Aliases = "meta/llama-3", []string{"gpt-4o", "literal", "qwen", "shared", "x-regex"}
	b[1].Aliases = []string{"shared", "own"}
	b[2].Aliases = []string{"orpheus"}
	b[3].Aliases = []string{"far"}
	rule := func(model, backend string) Rule {
		return Rule{
			Matches:  []Match{{Headers: []ValueMatch{{Name: "X-GATEWAY-model-name", Value: model}}}},
			Backends: []BackendRef{{Backend: backend, Weight: 1}},
		}
	}
	regex := rule("x-.*", "Model/ns/qwen")
	regex.Matches[0].Headers[0].Type = ValueRegex
	w.Routes = []Route{{
		Key: "HTTPRoute/ns/r", Listeners: []Attachment{{Listener: "ns/gw/http"}},
		Rules: []Rule{rule("llama", "Model/ns/llama"), rule("qwen", "Model/ns/qwen"), rule("literal", "Model/ns/qwen"), rule("tts", "Group/ns/tts"), regex},
	}, {
		Key: "HTTPRoute/ns/s", Listeners: []Attachment{{Listener: "ns/gw/plain"}},
		Rules: []Rule{{Backends: []BackendRef{{Backend: "Model/ns/elsewhere", Weight: 1}}}},
	}}
	s := mustCompile(t, w.config(), testOptions(), nil, NewRegistry(Hooks{}))
	l := s.Socket(80).Listener(nil)
	f := func(model, want string) {
		t.Helper()
		if got := string(l.ResolveModel([]byte(model))); got != want {
			t.Errorf("%q: got %q, want %q", model, got, want)
		}
	}
	f("meta/llama-3", "llama")
	f("gpt-4o", "llama")
	f("own", "qwen")
	f("orpheus", "member")
	f("llama", "llama")
	f("literal", "literal") // a rule matches it itself
	f("x-regex", "x-regex") // by expression too
	f("qwen", "qwen")       // a Model's own name
	f("shared", "shared")   // of two Models
	f("far", "far")         // of a Model that this listener does not reach
	f("unknown", "unknown")
	f("", "")
	if l.ResolveModel(nil) != nil {
		t.Error("no model became one")
	}
	if !l.NeedsModel || s.Socket(81).Listener(nil).NeedsModel {
		t.Error("NeedsModel is wrong")
	}
	if m := l.Match(&Request{Path: []byte("/"), Model: l.ResolveModel([]byte("gpt-4o"))}); m == nil || m.Rule.Index != 0 {
		t.Errorf("the alias led to %+v", m)
	}
	// The client's own header plays no part.
	if m := l.Match(&Request{Path: []byte("/"), Headers: fields{"X-Gateway-Model-Name": "llama"}}); m != nil {
		t.Errorf("the client's header matched %+v", m)
	}
}

func TestQueryValue(t *testing.T) {
	f := func(query, name, want string, ok bool) {
		t.Helper()
		raw, found := queryValue([]byte(query), name)
		if found != ok || string(unescape(raw)) != want {
			t.Errorf("%q of %q: got %q, %v, want %q, %v", name, query, unescape(raw), found, want, ok)
		}
	}
	f("a=1&b=2", "b", "2", true)
	f("a=1&a=2", "a", "1", true)
	f("a", "a", "", true)
	f("&&a=", "a", "", true)
	f("", "a", "", false)
	f("%61=%31%3d", "a", "1=", true)
	f("a=b=c", "a", "b=c", true)
	f("a=x+y", "a", "x+y", true)
	f("a=%zz%2", "a", "%zz%2", true)
	f("A=1", "a", "", false)
	f("ab=1", "a", "", false)
}
