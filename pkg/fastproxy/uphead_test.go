package fastproxy

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fasthttp"
)

// FuzzResponseHead compares with net/http: a head that is taken is taken by it
// too, with the same status and the same end of the body; and fasthttp, which
// parses it for its fields, consumes the same bytes.
func FuzzResponseHead(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.0 404 Not Found\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 204 No Content\r\nConnection: close, x\r\n\r\n",
		"HTTP/1.1 304 \r\nContent-Length: 0007\r\nKeep-Alive: timeout=5, max=3\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", "HTTP/1.1 099 X\r\n\r\n", "HTTP/1.1 200 OK\r\n: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nTrailer: X-A\r\nSet-Cookie: a=b; c\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > upstreamBuffer/2 {
			return
		}
		u := &upstreamConn{br: bufio.NewReaderSize(bytes.NewReader(in), upstreamBuffer)}
		block, err := u.headBlock()
		if err != nil {
			return
		}
		var ours, h fasthttp.ResponseHeader
		r := responseHead{fields: &ours}
		if r.parse(block) != nil {
			return
		}
		length := len(block)
		if h.Read(u.br) == nil {
			if consumed := len(in) - remainder(u.br); consumed != length {
				t.Fatalf("fasthttp reads a head of %d bytes, we of %d", consumed, length)
			}
			sameHead(t, &ours, &h)
		}
		hr := bufio.NewReader(bytes.NewReader(in))
		resp, err := http.ReadResponse(hr, &http.Request{Method: "GET"})
		if err != nil {
			if strings.Contains(err.Error(), "invalid Trailer") || strings.Contains(err.Error(), "bad trailer") {
				return // we drop such trailers when they come
			}
			t.Fatalf("net/http refuses the head: %v", err)
		}
		if resp.StatusCode != r.status {
			t.Fatalf("net/http reads status %d, we %d", resp.StatusCode, r.status)
		}
		chunked := len(resp.TransferEncoding) == 1
		switch r.framing {
		case bodyChunked:
			if !chunked {
				t.Fatal("net/http sees no chunks")
			}
		case bodyLength:
			if chunked || resp.ContentLength != r.length {
				t.Fatalf("net/http reads length %d, we %d", resp.ContentLength, r.length)
			}
		case bodyUntilClose:
			if chunked || resp.ContentLength != -1 || !resp.Close {
				t.Fatalf("net/http reads length %d, close %v; we: until close", resp.ContentLength, resp.Close)
			}
		case bodyNone:
			if b, err := io.ReadAll(resp.Body); len(b) > 0 && err == nil {
				t.Fatalf("net/http reads a body of %d bytes, we none", len(b))
			}
		case bodyTunnel:
			t.Fatal("a tunnel that nobody asked for")
		}
		if r.keepAlive && resp.Close {
			t.Fatal("net/http would close the connection, we keep it")
		}
	})
}

// sameHead compares what was read with fasthttp's reading, but for fields of
// which that keeps one line and for those of one hop.
func sameHead(t *testing.T, ours, h *fasthttp.ResponseHeader) {
	t.Helper()
	if ours.StatusCode() != h.StatusCode() || string(ours.StatusMessage()) != string(h.StatusMessage()) {
		t.Fatalf("we read %d %q, fasthttp %d %q", ours.StatusCode(), ours.StatusMessage(), h.StatusCode(), h.StatusMessage())
	}
	fields := func(h *fasthttp.ResponseHeader) map[string][]string {
		m := map[string][]string{}
		for name, value := range h.All() {
			switch n := string(name); {
			case isHopField(name), n == "Server", n == "Content-Type", n == "Content-Encoding":
			default:
				m[n] = append(m[n], string(value))
			}
		}
		return m
	}
	if diff := cmp.Diff(fields(h), fields(ours)); diff != "" {
		t.Fatalf("fasthttp's fields and ours: %s", diff)
	}
}

// remainder is how many bytes r still holds.
func remainder(r *bufio.Reader) int {
	b, _ := io.ReadAll(r)
	return len(b)
}
