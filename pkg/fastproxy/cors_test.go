package fastproxy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fasthttp"

	"flexinfer.ai/gateway/pkg/routing"
)

// The policies of the conformance suite's HTTPRouteCORS.
var (
	corsListed = routing.CORSFilter{
		AllowOrigins: []string{"https://www.foo.com", "https://*.bar.com"}, AllowMethods: []string{"GET", "OPTIONS"},
		AllowHeaders: []string{"x-header-1", "x-header-2"}, ExposeHeaders: []string{"x-header-3", "x-header-4"},
		AllowCredentials: true, MaxAge: 3600 * time.Second,
	}
	corsAnyMethod  = routing.CORSFilter{AllowOrigins: []string{"https://www.foo.com"}, AllowMethods: []string{"*"}}
	corsAnyOrigin  = routing.CORSFilter{AllowOrigins: []string{"*"}, AllowMethods: []string{"PUT"}}
	corsAnything   = routing.CORSFilter{AllowOrigins: []string{"*"}, AllowMethods: []string{"*"}, AllowHeaders: []string{"*"}, AllowCredentials: true}
	corsAnonymous  = routing.CORSFilter{AllowOrigins: []string{"*"}, AllowMethods: []string{"*"}, AllowHeaders: []string{"*"}}
	corsNoSettings = routing.CORSFilter{}
)

// corsLines are the fields of the CORS protocol, sorted.
func corsLines(h *fasthttp.ResponseHeader) []string {
	var out []string
	for _, line := range answerLines(h) {
		if strings.HasPrefix(line, "Access-Control-") {
			out = append(out, strings.TrimPrefix(line, "Access-Control-"))
		}
	}
	slices.Sort(out)
	return out
}

func preflight(t *testing.T, origin, method, headers string) *request {
	t.Helper()
	lines := []string{"OPTIONS / HTTP/1.1", "Host: example.com", "Origin: " + origin, "Access-Control-Request-Method: " + method}
	if headers != "" {
		lines = append(lines, "Access-Control-Request-Headers: "+headers)
	}
	return parsedRequest(t, lines...)
}

func TestCORSPreflight(t *testing.T) {
	f := func(name string, policy *routing.CORSFilter, origin, method, headers string, want ...string) {
		t.Helper()
		req := preflight(t, origin, method, headers)
		if !isPreflight(req) {
			t.Fatalf("%s: not seen as a preflight", name)
		}
		h := &fasthttp.ResponseHeader{}
		corsPreflight(policy, req, h)
		if diff := cmp.Diff(want, corsLines(h)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if got := string(h.Peek("Vary")); got != "Origin, Access-Control-Request-Method, Access-Control-Request-Headers" {
			t.Errorf("%s: Vary %q", name, got)
		}
	}
	listed := func(origin string) []string {
		return []string{
			"Allow-Credentials: true", "Allow-Headers: x-header-1, x-header-2", "Allow-Methods: GET, OPTIONS",
			"Allow-Origin: " + origin, "Expose-Headers: x-header-3, x-header-4", "Max-Age: 3600",
		}
	}
	for _, origin := range []string{"https://www.foo.com", "https://www.bar.com", "https://xpto.www.bar.com"} {
		f("listed "+origin, &corsListed, origin, "GET", "x-header-1, x-header-2", listed(origin)...)
	}
	for _, origin := range []string{
		"https://foobar.com", "https://bar.com", "https://.bar.com", "http://www.bar.com", "https://www.bar.com.evil.org",
		"https://www.bar.com:8443", "https://evil.org/.bar.com", "https://evil.org:1.bar.com", "https://www.foo.com.", "null",
	} {
		f("not listed "+origin, &corsListed, origin, "GET", "x-header-1")
	}
	f("any method", &corsAnyMethod, "https://www.foo.com", "POST", "", "Allow-Methods: POST", "Allow-Origin: https://www.foo.com")
	for _, origin := range []string{"https://foobar.com", "https://foobar.com:12345"} {
		f("any origin", &corsAnyOrigin, origin, "PUT", "", "Allow-Methods: PUT", "Allow-Origin: "+origin)
	}
	f("anything with credentials", &corsAnything, "https://foobar.com", "PUT", "x-header-1, x-header-2",
		"Allow-Credentials: true", "Allow-Headers: x-header-1, x-header-2", "Allow-Methods: PUT", "Allow-Origin: https://foobar.com")
	f("anything, no headers asked", &corsAnything, "https://foobar.com", "PUT", "",
		"Allow-Credentials: true", "Allow-Methods: PUT", "Allow-Origin: https://foobar.com")
	f("anything without credentials", &corsAnonymous, "https://foobar.com", "PUT", "authorization",
		"Allow-Headers: authorization", "Allow-Methods: PUT", "Allow-Origin: https://foobar.com")
	f("no settings", &corsNoSettings, "https://foobar.com", "PUT", "")
}

func TestIsPreflight(t *testing.T) {
	f := func(want bool, lines ...string) {
		t.Helper()
		if got := isPreflight(parsedRequest(t, append(lines, "Host: example.com")...)); got != want {
			t.Errorf("%q: got %t", lines, got)
		}
	}
	f(true, "OPTIONS / HTTP/1.1", "origin: a", "access-control-request-method: GET")
	f(false, "OPTIONS / HTTP/1.1", "Origin: a")
	f(false, "OPTIONS / HTTP/1.1", "Access-Control-Request-Method: GET")
	f(false, "GET / HTTP/1.1", "Origin: a", "Access-Control-Request-Method: GET")
}

func TestCORSApply(t *testing.T) {
	f := func(name string, policy *routing.CORSFilter, origin string, answer []string, want ...string) {
		t.Helper()
		var fields []string
		if origin != "" {
			fields = append(fields, "Origin: "+origin)
		}
		h := parsedAnswer(t, append([]string{"HTTP/1.1 200 OK", "Content-Length: 0"}, answer...)...)
		corsApply(policy, get(t, "/", fields...), h)
		if diff := cmp.Diff(want, corsLines(h)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	for _, origin := range []string{"https://www.foo.com", "https://www.bar.com", "https://xpto.www.bar.com"} {
		f("listed", &corsListed, origin, nil, "Allow-Credentials: true", "Allow-Origin: "+origin, "Expose-Headers: x-header-3, x-header-4")
	}
	f("not listed", &corsListed, "https://foobar.com", nil)
	f("no origin", &corsListed, "", nil)
	f("any origin", &corsAnyOrigin, "https://foobar.com:12345", nil, "Allow-Origin: https://foobar.com:12345")
	f("anything", &corsAnything, "https://foobar.com", nil, "Allow-Credentials: true", "Allow-Origin: https://foobar.com")
	backend := []string{"Access-Control-Allow-Origin: *", "X-A: 1", "access-control-allow-origin: *", "Access-Control-Expose-Headers: x"}
	f("the backend's own", &corsAnyOrigin, "https://a.com", backend, "Allow-Origin: https://a.com")
	f("the backend's own, not listed", &corsListed, "https://a.com", backend)
}

func TestCORSVaryIsAdded(t *testing.T) {
	h := parsedAnswer(t, "HTTP/1.1 200 OK", "Content-Length: 0", "Vary: Accept")
	corsApply(&corsAnyOrigin, get(t, "/", "Origin: https://a.com"), h)
	if got := string(h.Peek("Vary")); got != "Accept, Origin" {
		t.Errorf("got %q", got)
	}
}
