package fastproxy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// TestApartFieldsOfRequests: no User-Agent line is lost over any protocol, and a
// Content-Type of several lines is refused.
func TestApartFieldsOfRequests(t *testing.T) {
	got := make(chan []string, 1)
	engine := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header["User-Agent"]
	}))
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyLeastLoaded, engine), port, nil)
	for _, front := range everyFront(t, p) {
		ask := func(name string, values ...string) int {
			t.Helper()
			r, err := http.NewRequest("GET", front.url+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header[name] = values
			resp, err := front.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		if s := ask("Content-Type", "a/b", "c/d"); s != 400 {
			t.Errorf("%s: two types: %d, want 400", front.name, s)
		}
		if s := ask("User-Agent", "curl"); s != 200 || !slices.Equal(<-got, []string{"curl"}) {
			t.Errorf("%s: one agent: %d", front.name, s)
		}
	}
	f := func(agents string, want ...string) {
		t.Helper()
		if s := statusOf(exchangeRaw(t, p.address(), "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+agents+"\r\n")); s != "200" {
			t.Fatalf("%q: %s", agents, s)
		}
		if diff := cmp.Diff(want, <-got); diff != "" {
			t.Errorf("%q: %s", agents, diff)
		}
	}
	f("User-Agent: a\r\nuser-agent: b\r\nUSER-AGENT: c\r\n", "a", "b", "c")
	f("User-Agent: a\r\nUser-Agent:\r\n", "a")
	f("User-Agent:\r\nUser-Agent: b\r\n", "b")
	f("User-Agent:\r\n")
}

// TestApartFieldsOfAnswers: no line of an engine's answer is lost where fasthttp
// has room for one, and filters replace all of them.
func TestApartFieldsOfAnswers(t *testing.T) {
	engine := startRawEngine(t, answering("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nServer: a\r\nContent-Type: a/b\r\ncontent-encoding: br\r\n"+
		"server: b\r\nContent-Type: c/d\r\nServer:\r\nContent-Length: 2\r\n\r\nok"))
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyLeastLoaded, engine.address), port, nil)
	fronts := everyFront(t, p)
	check := func(want http.Header) {
		t.Helper()
		for _, front := range fronts {
			r, _ := http.NewRequest("GET", front.url+"/", nil)
			r.Header.Set("Accept-Encoding", "identity")
			resp, err := front.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			for name, values := range want {
				if diff := cmp.Diff(values, resp.Header[name]); diff != "" {
					t.Errorf("%s: %s: %s", front.name, name, diff)
				}
			}
		}
	}
	check(http.Header{"Content-Encoding": {"gzip", "br"}, "Server": {"a", "b"}, "Content-Type": {"a/b", "c/d"}})
	p.config.Routes[0].Rules[0].Filters = []routing.Filter{{ResponseHeaders: &routing.HeaderFilter{
		Set:    []routing.Header{{Name: "Server", Value: "x"}, {Name: "content-type", Value: "y/z"}},
		Remove: []string{"content-encoding"},
	}}}
	p.apply()
	check(http.Header{"Content-Encoding": nil, "Server": {"x"}, "Content-Type": {"y/z"}})
}

// TestCodingsOnSeveralLines: the Content-Encoding lines of a request are one list.
func TestCodingsOnSeveralLines(t *testing.T) {
	type seen struct {
		body    string
		codings []string
	}
	got := make(chan seen, 1)
	engine := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- seen{string(b), r.Header["Content-Encoding"]}
	}))
	const plain = `{"model":"m","prompt":"hello"}`
	var zipped, coded bytes.Buffer
	z := gzip.NewWriter(&zipped)
	io.WriteString(z, plain)
	z.Close()
	b := brotli.NewWriter(&coded)
	b.Write(zipped.Bytes())
	b.Close()
	for _, decode := range []bool{true, false} {
		port := testrig.FreePort(t)
		cfg := oneModel(port, routing.StrategyPrefix, engine)
		cfg.Backends[0].DecodeRequests = decode
		p := startProxy(t, cfg, port, nil)
		s := statusOf(exchangeRaw(t, p.address(), fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+
			"Content-Encoding: identity, gzip\r\nContent-Encoding: br\r\nContent-Length: %d\r\n\r\n%s", coded.Len(), coded.Bytes())))
		if s != "200" {
			t.Fatalf("decode %t: %s", decode, s)
		}
		want := seen{plain, nil}
		if !decode {
			want = seen{coded.String(), []string{"identity, gzip", "br"}}
		}
		if g := <-got; g.body != want.body || !slices.Equal(g.codings, want.codings) {
			t.Errorf("decode %t: %q %q, want %q %q", decode, g.body, g.codings, want.body, want.codings)
		}
	}
}
