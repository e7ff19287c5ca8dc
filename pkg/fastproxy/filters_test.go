package fastproxy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"flexinfer.ai/gateway/pkg/routing"
)

func TestApplyRequestHeaders(t *testing.T) {
	f := func(name string, in []string, filter routing.HeaderFilter, want []string) {
		t.Helper()
		req := get(t, "/", in...)
		applyRequestHeaders(req.header, &filter)
		if diff := cmp.Diff(append([]string{"Host: example.com"}, want...), requestLines(req.header)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	set := func(name, value string) routing.HeaderFilter {
		return routing.HeaderFilter{Set: []routing.Header{{Name: name, Value: value}}}
	}
	add := func(name, value string) routing.HeaderFilter {
		return routing.HeaderFilter{Add: []routing.Header{{Name: name, Value: value}}}
	}
	remove := func(names ...string) routing.HeaderFilter { return routing.HeaderFilter{Remove: names} }

	f("set a new one", nil, set("x-header-set", "v"), []string{"X-Header-Set: v"})
	f("set replaces", []string{"X-Header-Set: old"}, set("X-Header-Set", "v"), []string{"X-Header-Set: v"})
	f("set replaces all", []string{"X-A: 1", "X-B: b", "x-a: 2", "X-A: 3", "X-C: c"}, set("X-a", "v"), []string{"X-A: v", "X-B: b", "X-C: c"})
	f("set to nothing", []string{"X-A: 1"}, set("X-A", ""), []string{"X-A: "})
	f("set Cookie", []string{"Cookie: a=b", "X-A: 1", "Cookie: c=d"}, set("cookie", `x="y";z`), []string{"X-A: 1", `Cookie: x="y";z`})
	f("set Content-Type", []string{"Content-Type: a/b"}, set("content-type", "c/d"), []string{"Content-Type: c/d"})
	f("set with a line end", nil, set("X-A", "1\r\nX-B: 2"), []string{"X-A: 1  X-B: 2"})

	f("add a new one", nil, add("x-header-add", "v"), []string{"X-Header-Add: v"})
	f("add appends", []string{"X-Header-Add-Append: append-val-1", "X-B: 1"}, add("X-Header-Add-Append", "header-val-2"),
		[]string{"X-Header-Add-Append: append-val-1,header-val-2", "X-B: 1"})
	f("add to several lines", []string{"X-A: 1", "X-B: b", "X-A: 2"}, add("X-A", "3"), []string{"X-A: 1", "X-B: b", "X-A: 2", "X-A: 3"})
	f("add to an empty one", []string{"X-A: "}, add("X-A", "3"), []string{"X-A: 3"})
	f("add Cookie", []string{`Cookie: a="b";c`}, add("Cookie", "d=e"), []string{`Cookie: a="b";c; d=e`})
	f("add a new Cookie", nil, add("Cookie", "d=e"), []string{"Cookie: d=e"})
	f("add to Content-Type", []string{"Content-Type: a/b"}, add("Content-Type", "c/d"), []string{"Content-Type: a/b,c/d"})

	f("remove all", []string{"X-A: 1", "X-B: b", "x-a: 2", "X-C: c1", "X-A: 3", "X-C: c2"}, remove("x-A"), []string{"X-B: b", "X-C: c1", "X-C: c2"})
	f("remove several", []string{"X-A: 1", "X-B: b", "X-C: c"}, remove("X-C", "X-A", "X-None"), []string{"X-B: b"})
	f("remove special ones", []string{"User-Agent: x", "Content-Type: a/b", "Cookie: a=b", "X-A: 1"}, remove("user-agent", "CONTENT-TYPE", "cookie"), []string{"X-A: 1"})

	f("all at once, each once", []string{"X-Set: old", "X-Add: a", "X-Remove: r", "X-Keep: k"},
		routing.HeaderFilter{
			Set:    []routing.Header{{Name: "X-Set", Value: "1"}, {Name: "X-Set-New", Value: "2"}},
			Add:    []routing.Header{{Name: "X-Add", Value: "3"}, {Name: "X-Add-New", Value: "4"}},
			Remove: []string{"X-Remove"},
		},
		[]string{"X-Set: 1", "X-Add: a,3", "X-Keep: k", "X-Set-New: 2", "X-Add-New: 4"})
	f("remove, then set, then add", []string{"X-A: 1"},
		routing.HeaderFilter{Remove: []string{"X-A"}, Set: []routing.Header{{Name: "X-A", Value: "2"}}, Add: []routing.Header{{Name: "X-A", Value: "3"}}},
		[]string{"X-A: 2,3"})
}

func TestEditUserAgentAndHost(t *testing.T) {
	f := func(filter routing.HeaderFilter, agent, host string) {
		t.Helper()
		req := get(t, "/", "User-Agent: a")
		applyRequestHeaders(req.header, &filter)
		if got := string(req.header.UserAgent()); got != agent {
			t.Errorf("%+v: User-Agent %q, want %q", filter, got, agent)
		}
		if got := string(req.header.Host()); got != host {
			t.Errorf("%+v: Host %q, want %q", filter, got, host)
		}
		if n, _ := requestFields(req.header).count("Host"); n != 0 {
			t.Errorf("%+v: a second Host", filter)
		}
	}
	f(routing.HeaderFilter{Set: []routing.Header{{Name: "user-agent", Value: "b"}}}, "b", "example.com")
	f(routing.HeaderFilter{Add: []routing.Header{{Name: "user-agent", Value: "b"}}}, "a,b", "example.com")
	f(routing.HeaderFilter{Set: []routing.Header{{Name: "host", Value: "b"}}}, "a", "b")
	f(routing.HeaderFilter{Add: []routing.Header{{Name: "host", Value: "b"}}}, "a", "b")
}

func TestAddCookieThatFasthttpTookApart(t *testing.T) {
	req := get(t, "/", "Cookie: a=b; c=d")
	for range req.header.All() { // collects the cookies
		continue
	}
	applyRequestHeaders(req.header, &routing.HeaderFilter{Add: []routing.Header{{Name: "Cookie", Value: "e=f"}}})
	if diff := cmp.Diff([]string{"Host: example.com", "Cookie: a=b; c=d; e=f"}, requestLines(req.header)); diff != "" {
		t.Error(diff)
	}
}

func TestFieldsThatAFilterAddedAreFound(t *testing.T) {
	req := get(t, "/")
	applyRequestHeaders(req.header, &routing.HeaderFilter{Set: []routing.Header{{Name: "x-sESSION-id", Value: "v"}}})
	if got := string(req.header.Peek("X-Session-Id")); got != "v" {
		t.Errorf("got %q", got)
	}
}

func TestApplyResponseHeaders(t *testing.T) {
	f := func(name string, in []string, filter routing.HeaderFilter, want []string) {
		t.Helper()
		h := parsedAnswer(t, append([]string{"HTTP/1.1 200 OK", "Content-Length: 0"}, in...)...)
		applyResponseHeaders(h, &filter)
		var got []string
		for _, line := range answerLines(h) {
			if line != "Content-Length: 0" {
				got = append(got, line)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	header := func(name, value string) []routing.Header { return []routing.Header{{Name: name, Value: value}} }

	f("set", []string{"X-A: 1", "X-B: b", "X-A: 2"}, routing.HeaderFilter{Set: header("x-a", "3")}, []string{"X-A: 3", "X-B: b"})
	f("add", []string{"X-A: 1"}, routing.HeaderFilter{Add: header("x-a", "2")}, []string{"X-A: 1,2"})
	f("remove", []string{"X-A: 1", "X-B: b", "X-A: 2"}, routing.HeaderFilter{Remove: []string{"X-A"}}, []string{"X-B: b"})
	f("set Server", []string{"Server: uvicorn"}, routing.HeaderFilter{Set: header("server", "x")}, []string{"Server: x"})
	f("remove Server", []string{"Server: uvicorn"}, routing.HeaderFilter{Remove: []string{"server"}}, nil)
	f("set Content-Type", []string{"Content-Type: a/b"}, routing.HeaderFilter{Set: header("content-type", "c/d")}, []string{"Content-Type: c/d"})
	f("remove Content-Type", []string{"Content-Type: a/b"}, routing.HeaderFilter{Remove: []string{"Content-Type"}}, nil)
	f("add Set-Cookie", []string{"Set-Cookie: a=b"}, routing.HeaderFilter{Add: header("set-cookie", "c=d")}, []string{"Set-Cookie: a=b", "Set-Cookie: c=d"})
	f("set Set-Cookie", []string{"Set-Cookie: a=b", "Set-Cookie: c=d"}, routing.HeaderFilter{Set: header("Set-Cookie", "e=f")}, []string{"Set-Cookie: e=f"})
	f("remove Set-Cookie", []string{"Set-Cookie: a=b", "X-A: 1"}, routing.HeaderFilter{Remove: []string{"set-cookie"}}, []string{"X-A: 1"})
}

func TestSetDateOfAnAnswer(t *testing.T) {
	h := parsedAnswer(t, "HTTP/1.1 200 OK", "Content-Length: 0", "Date: Thu, 01 Jan 1970 00:00:00 GMT")
	applyResponseHeaders(h, &routing.HeaderFilter{Set: []routing.Header{{Name: "date", Value: "Fri, 02 Jan 1970 00:00:00 GMT"}}})
	if got := string(h.Peek("Date")); got != "Fri, 02 Jan 1970 00:00:00 GMT" {
		t.Errorf("got %q", got)
	}
}
