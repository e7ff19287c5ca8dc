package fastproxy

import (
	"testing"

	"github.com/valyala/fasthttp"
)

// pass runs a message's head through scan and gate, as a connection does.
func pass(raw string) (g gate, head []byte, r *refusal) {
	g, _, head, r = passFields(raw)
	return g, head, r
}

// passFields is pass with the header that the gate fills.
func passFields(raw string) (g gate, h *fasthttp.RequestHeader, head []byte, r *refusal) {
	b := []byte(raw)
	h = &fasthttp.RequestHeader{}
	var s headScan
	for {
		n, skip, ref := s.next(b)
		switch {
		case ref != nil:
			return g, h, nil, ref
		case skip > 0:
			b = b[skip:]
		case n == 0:
			return g, h, nil, nil
		default:
			var scratch []byte
			r = g.examine(b[:n], h, &scratch)
			return g, h, b[:n], r
		}
	}
}

// TestGateTable holds the table of raw requests: what passes and how it is
// framed, and what is refused with which status. L is an HTTP/1.1 request line
// and H a Host field.
func TestGateTable(t *testing.T) {
	const L, H = "POST /p HTTP/1.1\r\n", "Host: a\r\n"
	type want struct {
		status  int   // 0: passes
		bodyLen int64 // where it passes
	}
	tests := []struct {
		name, raw string
		want      want
	}{
		{"plain GET", "GET / HTTP/1.1\r\n" + H + "\r\n", want{}},
		{"content-length", L + H + "Content-Length: 5\r\n\r\n", want{bodyLen: 5}},
		{"leading zeros in the length", L + H + "Content-Length: 005\r\n\r\n", want{bodyLen: 5}},
		{"chunked", L + H + "Transfer-Encoding: chunked\r\n\r\n", want{bodyLen: -1}},
		{"chunked in capitals", L + H + "transfer-encoding: CHUNKED\r\n\r\n", want{bodyLen: -1}},
		{"leading empty lines", "\r\n\r\nGET / HTTP/1.1\r\n" + H + "\r\n", want{}},

		{"length and chunked", L + H + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", want{status: 400}},
		{"chunked and length", L + H + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", want{status: 400}},
		{"two types", L + H + "Content-Type: a/b\r\nContent-Type: a/b\r\n\r\n", want{status: 400}},
		{"two equal lengths", L + H + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", want{status: 400}},
		{"two lengths", L + H + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", want{status: 400}},
		{"length list", L + H + "Content-Length: 5, 5\r\n\r\n", want{status: 400}},
		{"signed length", L + H + "Content-Length: +5\r\n\r\n", want{status: 400}},
		{"negative length", L + H + "Content-Length: -5\r\n\r\n", want{status: 400}},
		{"hex length", L + H + "Content-Length: 0x5\r\n\r\n", want{status: 400}},
		{"empty length", L + H + "Content-Length:\r\n\r\n", want{status: 400}},
		{"length overflow", L + H + "Content-Length: 99999999999999999999\r\n\r\n", want{status: 400}},
		{"length with a space", L + H + "Content-Length: 5 5\r\n\r\n", want{status: 400}},
		{"space before the colon", L + H + "Content-Length : 5\r\n\r\n", want{status: 400}},

		{"identity", L + H + "Transfer-Encoding: identity\r\n\r\n", want{status: 501}},
		{"identity and length", L + H + "Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\n", want{status: 501}},
		{"gzip, chunked", L + H + "Transfer-Encoding: gzip, chunked\r\n\r\n", want{status: 501}},
		{"chunked, identity", L + H + "Transfer-Encoding: chunked, identity\r\n\r\n", want{status: 501}},
		{"xchunked", L + H + "Transfer-Encoding: xchunked\r\n\r\n", want{status: 501}},
		{"quoted chunked", L + H + "Transfer-Encoding: \"chunked\"\r\n\r\n", want{status: 501}},
		{"empty coding", L + H + "Transfer-Encoding:\r\n\r\n", want{status: 400}},
		{"chunked twice", L + H + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", want{status: 400}},
		{"coding with VT", L + H + "Transfer-Encoding: \x0bchunked\r\n\r\n", want{status: 400}},
		{"coding, space before colon", L + H + "Transfer-Encoding : chunked\r\n\r\n", want{status: 400}},
		{"coding name with a space", L + H + "Transfer-Encoding x: chunked\r\n\r\n", want{status: 400}},
		{"coding folded", L + H + "Transfer-Encoding:\r\n chunked\r\n\r\n", want{status: 400}},
		{"coding in HTTP/1.0", "POST / HTTP/1.0\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n", want{status: 400}},

		{"bare LF after the request line", "GET / HTTP/1.1\n" + H + "\r\n", want{status: 400}},
		{"bare LF after a field", "GET / HTTP/1.1\r\nHost: a\n\r\n", want{status: 400}},
		{"bare LF blank line", "GET / HTTP/1.1\r\n" + H + "\nGET / HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"bare CR in a value", "GET / HTTP/1.1\r\n" + H + "X: a\rb\r\n\r\n", want{status: 400}},
		{"CR CR LF", "GET / HTTP/1.1\r\n" + H + "X: a\r\r\n\r\n", want{status: 400}},
		{"NUL in a value", "GET / HTTP/1.1\r\n" + H + "X: a\x00b\r\n\r\n", want{status: 400}},
		{"DEL in a value", "GET / HTTP/1.1\r\n" + H + "X: a\x7fb\r\n\r\n", want{status: 400}},
		{"ESC far into a value", "GET / HTTP/1.1\r\n" + H + "X: abcdefghijklmnopq\x1b\r\n\r\n", want{status: 400}},
		{"tab and 8 bit in a value", "GET / HTTP/1.1\r\n" + H + "X: a\tb\xe9\xff\x80\r\n\r\n", want{}},
		{"fold", "GET / HTTP/1.1\r\n" + H + "X: a\r\n b\r\n\r\n", want{status: 400}},
		{"fold with tab", "GET / HTTP/1.1\r\n" + H + "X: a\r\n\tb\r\n\r\n", want{status: 400}},
		{"fold first", "GET / HTTP/1.1\r\n X: a\r\n" + H + "\r\n", want{status: 400}},
		{"name with a space", "GET / HTTP/1.1\r\n" + H + "Foo Bar: a\r\n\r\n", want{status: 400}},
		{"empty name", "GET / HTTP/1.1\r\n" + H + ": a\r\n\r\n", want{status: 400}},
		{"no colon", "GET / HTTP/1.1\r\n" + H + "foo\r\n\r\n", want{status: 400}},
		{"name with 8 bit", "GET / HTTP/1.1\r\n" + H + "F\xe9: a\r\n\r\n", want{status: 400}},
		{"name with NUL", "GET / HTTP/1.1\r\n" + H + "F\x00: a\r\n\r\n", want{status: 400}},
		{"name with underscore", "GET / HTTP/1.1\r\n" + H + "Session_Id: a\r\n\r\n", want{}},
		{"empty value", "GET / HTTP/1.1\r\n" + H + "X:\r\n\r\n", want{}},

		{"no host", "GET / HTTP/1.1\r\n\r\n", want{status: 400}},
		{"empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", want{status: 400}},
		{"two hosts", "GET / HTTP/1.1\r\n" + H + H + "\r\n", want{status: 400}},
		{"host with userinfo", "GET / HTTP/1.1\r\nHost: u:p@a\r\n\r\n", want{status: 400}},
		{"host with quotes", "GET / HTTP/1.1\r\nHost: a<>\"'\r\n\r\n", want{status: 400}},
		{"host with a space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", want{status: 400}},
		{"host with a slash", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", want{status: 400}},
		{"host list", "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", want{status: 400}},
		{"host with percent", "GET / HTTP/1.1\r\nHost: a%2eb\r\n\r\n", want{status: 400}},
		{"host with 8 bit", "GET / HTTP/1.1\r\nHost: \xe9\r\n\r\n", want{status: 400}},
		{"host with port", "GET / HTTP/1.1\r\nHost: a:8080\r\n\r\n", want{}},
		{"host with empty port", "GET / HTTP/1.1\r\nHost: a:\r\n\r\n", want{}},
		{"host with two ports", "GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n", want{status: 400}},
		{"host with a big port", "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", want{status: 400}},
		{"host with a port name", "GET / HTTP/1.1\r\nHost: a:http\r\n\r\n", want{status: 400}},
		{"host IPv6", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", want{}},
		{"host IPv6 open", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", want{status: 400}},
		{"host IPv6 with junk", "GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n", want{status: 400}},
		{"HTTP/1.0 without host", "GET / HTTP/1.0\r\n\r\n", want{}},

		{"HTTP/1.2", "GET / HTTP/1.2\r\n" + H + "\r\n", want{status: 505}},
		{"HTTP/2.0", "GET / HTTP/2.0\r\n" + H + "\r\n", want{status: 505}},
		{"HTTP/3.7", "GET / HTTP/3.7\r\n" + H + "\r\n", want{status: 505}},
		{"HTTP/0.9 with version", "GET / HTTP/0.9\r\n" + H + "\r\n", want{status: 505}},
		{"HTTP/0.9", "GET /\r\n\r\n", want{status: 400}},
		{"h2 preface", "PRI * HTTP/2.0\r\n\r\n", want{status: 505}},
		{"http in lower case", "GET / http/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"HTTP/11", "GET / HTTP/11\r\n" + H + "\r\n", want{status: 400}},
		{"space at the end of the line", "GET / HTTP/1.1 \r\n" + H + "\r\n", want{status: 400}},
		{"two spaces", "GET  / HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"tab as separator", "GET\t/ HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"leading space", " GET / HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"no target", "GET  HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"method with brackets", "G[]T / HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"method in lower case", "get / HTTP/1.1\r\n" + H + "\r\n", want{}},
		{"unknown method", "FROB / HTTP/1.1\r\n" + H + "\r\n", want{}},
		{"CONNECT", "CONNECT a:80 HTTP/1.1\r\n" + H + "\r\n", want{status: 405}},
		{"TRACE", "TRACE / HTTP/1.1\r\n" + H + "\r\n", want{}},

		{"space in the target", "GET /a b HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"control byte in the target", "GET /a\x01b HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"DEL in the target", "GET /a\x7fb HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"fragment", "GET /a#b HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"8 bit in the target", "GET /\xc3\xa9 HTTP/1.1\r\n" + H + "\r\n", want{}},
		{"encoded NUL", "GET /a%00b HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"bad percent", "GET /a%zz HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"percent at the end", "GET /a% HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"bad percent in the query", "GET /a?100% HTTP/1.1\r\n" + H + "\r\n", want{}},
		{"asterisk", "OPTIONS * HTTP/1.1\r\n" + H + "\r\n", want{}},
		{"asterisk with GET", "GET * HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"no slash", "GET abc HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"double slash", "GET //x://y/z HTTP/1.1\r\n" + H + "\r\n", want{}},
		{"absolute", "GET http://b/c HTTP/1.1\r\n" + H + "\r\n", want{}},
		{"absolute, other scheme", "GET ftp://b/c HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"absolute with userinfo", "GET http://u@b/c HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"absolute without host", "GET http:///c HTTP/1.1\r\n" + H + "\r\n", want{status: 400}},
		{"absolute without Host field", "GET http://b/c HTTP/1.1\r\n\r\n", want{status: 400}},
		{"absolute with a bad Host field", "GET http://b/c HTTP/1.1\r\nHost: a@b\r\n\r\n", want{status: 400}},

		{"expect", L + H + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", want{bodyLen: 5}},
		{"expect foo", L + H + "Content-Length: 5\r\nExpect: foo\r\n\r\n", want{status: 417}},
		{"expect twice", L + H + "Content-Length: 5\r\nExpect: 100-continue\r\nExpect: 100-continue\r\n\r\n", want{status: 417}},
		{"upgrade, close", "GET / HTTP/1.1\r\n" + H + "Upgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n", want{status: 400}},
		{"upgrade and close", "GET / HTTP/1.1\r\n" + H + "Connection: close\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", want{status: 400}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, head, r := pass(tt.raw)
			switch {
			case r != nil && r.status != tt.want.status:
				t.Fatalf("refused with %d (%s), want %d", r.status, r.text, tt.want.status)
			case r == nil && tt.want.status != 0:
				t.Fatalf("passed, want %d", tt.want.status)
			case r == nil && head == nil:
				t.Fatal("the block has no end")
			case r == nil && g.bodyLen != tt.want.bodyLen:
				t.Fatalf("body length %d, want %d", g.bodyLen, tt.want.bodyLen)
			}
		})
	}
}

func TestGateFields(t *testing.T) {
	f := func(raw, target, path, query, canonical, authority, host, upgrade string, closing bool) {
		t.Helper()
		g, _, r := pass(raw)
		if r != nil {
			t.Fatalf("%q refused: %d %s", raw, r.status, r.text)
		}
		got := []string{
			string(g.target.target), string(g.target.path), string(g.target.query), string(g.target.canonical),
			string(g.target.authority), string(g.target.host), string(g.upgrade),
		}
		for i, want := range []string{target, path, query, canonical, authority, host, upgrade} {
			if got[i] != want {
				t.Errorf("%q: member %d is %q, want %q", raw, i, got[i], want)
			}
		}
		if g.close != closing {
			t.Errorf("%q: close %v, want %v", raw, g.close, closing)
		}
	}
	f("GET /a%2Fb?x=1 HTTP/1.1\r\nHost: A.Example:80\r\n\r\n",
		"/a%2Fb?x=1", "/a%2Fb", "x=1", "/a%2Fb", "A.Example:80", "a.example", "", false)
	f("GET /a? HTTP/1.1\r\nHost: a.\r\n\r\n", "/a?", "/a", "", "/a", "a.", "a", "", false)
	f("GET //x://y/z HTTP/1.1\r\nHost: a\r\n\r\n", "//x://y/z", "//x://y/z", "", "//x://y/z", "a", "a", "", false)
	f("GET http://B:8/c?d HTTP/1.1\r\nHost: a\r\n\r\n", "/c?d", "/c", "d", "/c", "B:8", "b", "", false)
	f("GET HTTPS://b HTTP/1.1\r\nHost: a\r\n\r\n", "/", "/", "", "/", "b", "b", "", false)
	f("GET http://b?q HTTP/1.1\r\nHost: a\r\n\r\n", "/?q", "/", "q", "/", "b", "b", "", false)
	f("OPTIONS http://b HTTP/1.1\r\nHost: a\r\n\r\n", "*", "*", "", "*", "b", "b", "", false)
	f("OPTIONS * HTTP/1.1\r\nHost: [FE::1]:9\r\n\r\n", "*", "*", "", "*", "[FE::1]:9", "[fe::1]", "", false)
	f("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"/", "/", "", "/", "a", "a", "websocket", false)
	f("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n", "/", "/", "", "/", "a", "a", "", false)
	f("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n", "/", "/", "", "/", "a", "a", "", false)
	f("POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\n",
		"/", "/", "", "/", "a", "a", "", false)
	f("GET / HTTP/1.1\r\nHost: a\r\nConnection: foo , CLOSE\r\n\r\n", "/", "/", "", "/", "a", "a", "", true)
	f("GET / HTTP/1.0\r\n\r\n", "/", "/", "", "/", "", "", "", true)
	f("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", "/", "/", "", "/", "a", "a", "", false)
}
