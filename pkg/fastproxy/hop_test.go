package fastproxy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStripHopByHop(t *testing.T) {
	f := func(name string, in, want []string) {
		t.Helper()
		req := get(t, "/", in...)
		stripHopByHop(req.header)
		if diff := cmp.Diff(append([]string{"Host: example.com"}, want...), requestLines(req.header)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	f("nothing to do", []string{"Accept: */*", "X-A: 1", "X-A: 2"}, []string{"Accept: */*", "X-A: 1", "X-A: 2"})
	f("keep-alive", []string{"Connection: keep-alive", "Keep-Alive: timeout=5", "X-A: 1"}, []string{"X-A: 1"})
	f("close", []string{"Connection: close", "X-A: 1"}, []string{"X-A: 1"})
	f("close with more", []string{"Connection: close, x-a", "X-A: 1", "X-B: 2"}, []string{"X-B: 2"})
	f("order of repeated lines", []string{"Connection: keep-alive", "X-A: 1", "X-B: b", "X-A: 2", "X-A: 3"},
		[]string{"X-A: 1", "X-B: b", "X-A: 2", "X-A: 3"})
	f("all of them", []string{
		"Keep-Alive: 1", "Proxy-Connection: keep-alive", "X-A: 1", "Proxy-Authenticate: x",
		"Proxy-Authorization: Basic x", "X-B: 2", "Upgrade: foo", "HTTP2-Settings: x", "X-A: 3",
	}, []string{"X-A: 1", "X-B: 2", "X-A: 3"})
	f("empty values", []string{"Keep-Alive: ", "Upgrade: ", "X-A: 1"}, []string{"X-A: 1"})
	f("nominated, several lines", []string{"X-A: 1", "Connection: x-a, ,X-B", "X-B: 2", "X-A: 3", "connection: X-C", "X-C: 4", "X-D: 5"},
		[]string{"X-D: 5"})
	f("nominated User-Agent", []string{"User-Agent: me", "Connection: user-agent"}, nil)
	f("nominated Cookie", []string{"Cookie: a=b", "Connection: cookie"}, nil)
	f("what cannot be nominated away", []string{"Connection: host, content-type, x-forwarded-for, Content-Encoding",
		"Content-Type: a/b", "X-Forwarded-For: 10.0.0.1", "Content-Encoding: gzip"},
		[]string{"Content-Type: a/b", "X-Forwarded-For: 10.0.0.1", "Content-Encoding: gzip"})
	f("TE trailers stays", []string{"TE: trailers", "X-A: 1"}, []string{"Te: trailers", "X-A: 1"})
	f("TE trailers stays alone", []string{"TE: deflate;q=0.5, Trailers"}, []string{"Te: trailers"})
	f("TE trailers nominated stays", []string{"Connection: TE", "TE: trailers"}, []string{"Te: trailers"})
	f("other TE goes", []string{"TE: deflate", "X-A: 1"}, []string{"X-A: 1"})
	f("cookie untouched", []string{"Connection: keep-alive", `Cookie: a="b c";x; =y`, "X-A: 1"},
		[]string{`Cookie: a="b c";x; =y`, "X-A: 1"})
}

func TestStripResponseHopByHop(t *testing.T) {
	f := func(name, status string, in, want []string) {
		t.Helper()
		h := parsedAnswer(t, append([]string{"HTTP/1.1 " + status}, in...)...)
		stripResponseHopByHop(h)
		if diff := cmp.Diff(want, answerLines(h)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	f("plain", "200 OK", []string{"Content-Length: 0", "Vary: a", "Vary: b"}, []string{"Content-Length: 0", "Vary: a", "Vary: b"})
	f("hop fields", "200 OK", []string{"Content-Length: 0", "Connection: close", "Vary: a", "Keep-Alive: timeout=5", "X-B: 1", "Vary: b", "Proxy-Authenticate: x"},
		[]string{"Content-Length: 0", "Vary: a", "X-B: 1", "Vary: b"})
	f("chunked", "200 OK", []string{"Transfer-Encoding: chunked", "Content-Type: text/event-stream"}, []string{"Content-Type: text/event-stream"})
	f("nominated", "200 OK", []string{"Server: x", "Content-Length: 0", "Connection: x-a, server", "X-A: 1", "X-B: 2"},
		[]string{"Content-Length: 0", "X-B: 2"})
	f("cookies stay apart", "200 OK", []string{"Content-Length: 0", "Set-Cookie: a=b", "Connection: keep-alive", "Set-Cookie: c=d"},
		[]string{"Content-Length: 0", "Set-Cookie: a=b", "Set-Cookie: c=d"})
	f("a switch of protocols keeps them", "101 Switching Protocols", []string{"Upgrade: websocket", "Connection: Upgrade"},
		[]string{"Upgrade: websocket", "Connection: Upgrade"})
}

func TestForwardedFields(t *testing.T) {
	f := func(name string, in []string, tls bool, remote string, want []string) {
		t.Helper()
		req := get(t, "/", in...)
		req.tls, req.remote = tls, []byte(remote)
		forwardedFields(req.header, req)
		if diff := cmp.Diff(append([]string{"Host: example.com"}, want...), requestLines(req.header)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	f("none before", nil, false, "192.0.2.7:1",
		[]string{"X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: http", "X-Forwarded-Host: example.com"})
	f("a chain", []string{"X-Forwarded-For: 10.0.0.1, 10.0.0.2"}, true, "192.0.2.7:1",
		[]string{"X-Forwarded-For: 10.0.0.1, 10.0.0.2, 192.0.2.7", "X-Forwarded-Proto: https", "X-Forwarded-Host: example.com"})
	f("a chain of lines", []string{"X-Forwarded-For: a", "X-B: 1", "X-Forwarded-For: b"}, false, "[2001:db8::1]:1",
		[]string{"X-Forwarded-For: a", "X-B: 1", "X-Forwarded-For: b, 2001:db8::1", "X-Forwarded-Proto: http", "X-Forwarded-Host: example.com"})
	f("claims are replaced", []string{"X-Forwarded-Proto: https", "X-Forwarded-Host: evil", "X-Forwarded-Proto: x", "X-Forwarded-Host: evil2"}, false, "192.0.2.7:1",
		[]string{"X-Forwarded-Proto: http", "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Host: example.com"})
	f("an empty line", []string{"X-Forwarded-For: "}, false, "192.0.2.7:1",
		[]string{"X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: http", "X-Forwarded-Host: example.com"})
}
