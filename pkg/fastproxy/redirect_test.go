package fastproxy

import (
	"testing"

	"flexinfer.ai/gateway/pkg/routing"
)

func TestRedirectLocation(t *testing.T) {
	f := func(name, target string, tls bool, port uint16, r routing.RedirectFilter, prefix, want string) {
		t.Helper()
		req := get(t, target)
		req.tls = tls
		if got := redirectLocation(nil, req, &r, prefix, port); string(got) != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	path := func(kind routing.PathRewriteType, value string) *routing.PathRewrite {
		return &routing.PathRewrite{Type: kind, Value: value}
	}
	const full, prefix = routing.ReplaceFullPath, routing.ReplacePrefixMatch

	f("hostname", "/a", false, 80, routing.RedirectFilter{Hostname: "example.org"}, "", "http://example.org/a")
	f("nothing but status", "/a", false, 80, routing.RedirectFilter{}, "", "http://example.com/a")
	f("listener port kept", "/a", false, 8080, routing.RedirectFilter{Hostname: "example.org"}, "", "http://example.org:8080/a")
	f("listener port of https kept", "/a", true, 8443, routing.RedirectFilter{}, "", "https://example.com:8443/a")
	f("listener 443", "/a", true, 443, routing.RedirectFilter{}, "", "https://example.com/a")
	f("http on 443", "/a", false, 443, routing.RedirectFilter{}, "", "http://example.com:443/a")
	f("scheme gives its port", "/a", false, 8080, routing.RedirectFilter{Scheme: "https"}, "", "https://example.com/a")
	f("scheme and port", "/a", false, 80, routing.RedirectFilter{Scheme: "https", Port: 8443}, "", "https://example.com:8443/a")
	f("scheme and usual port", "/a", false, 80, routing.RedirectFilter{Scheme: "https", Port: 443}, "", "https://example.com/a")
	f("port", "/a", false, 80, routing.RedirectFilter{Port: 8083}, "", "http://example.com:8083/a")
	f("port 80 of http", "/a", false, 8080, routing.RedirectFilter{Port: 80}, "", "http://example.com/a")
	f("port 80 of https", "/a", true, 8443, routing.RedirectFilter{Port: 80}, "", "https://example.com:80/a")

	f("prefix", "/original-prefix/lemon", false, 80, routing.RedirectFilter{Path: path(prefix, "/replacement-prefix")}, "/original-prefix", "http://example.com/replacement-prefix/lemon")
	f("full", "/full/path/original", false, 80, routing.RedirectFilter{Path: path(full, "/full-path-replacement")}, "/full", "http://example.com/full-path-replacement")
	f("prefix and host", "/path-and-host", false, 80, routing.RedirectFilter{Hostname: "example.org", Path: path(prefix, "/replacement-prefix")}, "/path-and-host", "http://example.org/replacement-prefix")
	f("query kept", "/a?b=%20c", false, 80, routing.RedirectFilter{Hostname: "example.org"}, "", "http://example.org/a?b=%20c")
	f("raw path kept", "/a%2fb//%7e", false, 80, routing.RedirectFilter{}, "", "http://example.com/a%2fb//%7e")
}

func TestRedirectLocationOfHosts(t *testing.T) {
	f := func(host, want string) {
		t.Helper()
		req := parsedRequest(t, "GET /a HTTP/1.1", "Host: "+host)
		if got := redirectLocation(nil, req, &routing.RedirectFilter{}, "", 8080); string(got) != want {
			t.Errorf("host %q: got %q, want %q", host, got, want)
		}
	}
	f("Example.ORG:1234", "http://example.org:8080/a")
	f("[2001:DB8::1]:1234", "http://[2001:db8::1]:8080/a")
	f("[::1]", "http://[::1]:8080/a")

	req := parsedRequest(t, "GET /a?b HTTP/1.0")
	if got := redirectLocation(nil, req, &routing.RedirectFilter{}, "", 80); string(got) != "/a?b" {
		t.Errorf("no host: got %q", got)
	}
}
