package fastproxy

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fasthttp"

	"flexinfer.ai/gateway/pkg/routing"
)

// FuzzGate holds that whatever passes the gate means the same to everybody who
// accepts it: the gate, fasthttp and net/http agree on where the head ends, method,
// target, host and framing, and that every field is taken but those that frame.
func FuzzGate(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /a%2Fb/../c?x HTTP/1.1\r\nHost: A.b:80\r\nContent-Length: 5\r\n\r\nhello",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET http://u@b:1/c HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://B/c HTTP/1.1\r\nHost: a\r\n\r\n",
		"OPTIONS * HTTP/1.0\r\n\r\n",
		"GET //x://y HTTP/1.1\r\nHost: [::1]:8\r\nConnection: upgrade, foo\r\nUpgrade: websocket\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
		"GET / HTTP/1.1\nHost: a\n\n",
		"\r\nGET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 007\r\n\r\n",
		"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
		"GET /?# HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 64<<10 {
			return
		}
		g, h, head, r := passFields(string(raw))
		if r != nil || head == nil {
			return
		}
		checkTarget(t, &g)
		checkFields(t, h, head)
		checkRaw(t, &g, head)
		checkNetHTTP(t, &g, head)
	})
}

// checkTarget holds what the target's parts promise.
func checkTarget(t *testing.T, g *gate) {
	tg := &g.target
	whole := string(tg.path)
	if tg.query != nil {
		whole += "?" + string(tg.query)
	}
	if whole != string(tg.target) {
		t.Fatalf("target %q has the parts %q and %q", tg.target, tg.path, tg.query)
	}
	if tg.canonical[0] == '*' {
		return
	}
	again, err := routing.AppendCanonicalPath(nil, tg.canonical)
	if err != nil || !bytes.Equal(again, tg.canonical) {
		t.Fatalf("canonical %q becomes %q", tg.canonical, again)
	}
	for _, segment := range strings.Split(string(tg.canonical), "/") {
		if segment == "." || segment == ".." {
			t.Fatalf("canonical %q holds a dot segment", tg.canonical)
		}
	}
}

// checkFields holds that h has the fields of head, each as often and with the
// values it was sent with, but for those that frame the message, and that they
// are one message without a body when they are written.
func checkFields(t *testing.T, h *fasthttp.RequestHeader, head []byte) {
	got, want := map[string][]string{}, map[string][]string{}
	add := func(m map[string][]string, name, value string) {
		name = strings.ToLower(name)
		m[name] = append(m[name], value)
	}
	lines := strings.Split(strings.TrimSuffix(string(head), "\r\n\r\n"), "\r\n")
	if method, _, _ := strings.Cut(lines[0], " "); string(h.Method()) != method {
		t.Fatalf("the method of %q is taken for %q", head, h.Method())
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		switch strings.ToLower(name) {
		case "content-length", "transfer-encoding", "expect", "trailer":
		case "user-agent", "content-type", "host":
			if value != "" {
				add(want, name, value)
			}
		default:
			add(want, name, value)
		}
	}
	for _, apart := range [][2]string{{"host", string(h.Host())}, {"user-agent", string(h.UserAgent())}, {"content-type", string(h.ContentType())}} {
		if apart[1] != "" {
			add(got, apart[0], apart[1])
		}
	}
	for _, f := range *requestFields(h) {
		add(got, string(f.key), string(f.value))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("fields of %q: %s", head, diff)
	}
	var again fasthttp.RequestHeader
	h.SetRequestURI("/")
	if len(h.Host()) == 0 {
		h.SetHost("a") // HTTP/1.0
	}
	out := h.AppendBytes(nil)
	br := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(out), strings.NewReader("rest")), 128<<10)
	if err := again.Read(br); err != nil {
		t.Fatalf("fasthttp refuses %q: %v", out, err)
	}
	if rest, _ := io.ReadAll(br); string(rest) != "rest" {
		t.Fatalf("fasthttp ends %q at %q", out, rest)
	}
	if !bytes.Equal(again.Method(), h.Method()) || !bytes.Equal(again.Host(), h.Host()) || string(again.RequestURI()) != "/" {
		t.Fatalf("fasthttp sees %q %q %q in %q", again.Method(), again.RequestURI(), again.Host(), out)
	}
	if again.ContentLength() > 0 || again.ContentLength() == -1 {
		t.Fatalf("fasthttp sees a body in %q", out)
	}
}

// checkRaw holds that fasthttp, where it takes the raw block, frames it alike.
func checkRaw(t *testing.T, g *gate, head []byte) {
	var h fasthttp.RequestHeader
	if h.Read(bufio.NewReaderSize(bytes.NewReader(head), 128<<10)) != nil {
		return
	}
	if want := int(g.bodyLen); want != 0 && h.ContentLength() != want || want == 0 && h.ContentLength() > 0 {
		t.Fatalf("fasthttp frames %q by %d, the gate by %d", head, h.ContentLength(), g.bodyLen)
	}
	if !bytes.Equal(h.Host(), g.host) || !bytes.Equal(h.RequestURI(), g.rawTarget) {
		t.Fatalf("fasthttp sees %q %q in %q", h.Host(), h.RequestURI(), head)
	}
}

// checkNetHTTP holds the same for net/http.
func checkNetHTTP(t *testing.T, g *gate, head []byte) {
	br := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(head), strings.NewReader("rest")), 128<<10)
	req, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	if rest, _ := io.ReadAll(br); string(rest) != "rest" {
		t.Fatalf("net/http ends %q at %q", head, rest)
	}
	chunked := len(req.TransferEncoding) == 1 && req.TransferEncoding[0] == "chunked"
	if chunked != (g.bodyLen == -1) || !chunked && req.ContentLength != g.bodyLen {
		t.Fatalf("net/http frames %q by %d %v, the gate by %d", head, req.ContentLength, req.TransferEncoding, g.bodyLen)
	}
	if req.Method != string(g.method) || req.RequestURI != string(g.rawTarget) {
		t.Fatalf("net/http sees %q %q in %q", req.Method, req.RequestURI, head)
	}
	if req.Host != string(g.target.authority) {
		t.Fatalf("net/http sees the host %q in %q, the gate %q", req.Host, head, g.target.authority)
	}
	if g.http10 != !req.ProtoAtLeast(1, 1) {
		t.Fatalf("net/http sees %s in %q", req.Proto, head)
	}
}

// decodeChunks runs a client's chunked body through a decoder, in pieces of n
// bytes. rest is what follows the body; ok: it ended and was well-formed.
func decodeChunks(raw []byte, n int) (content, rest []byte, ok bool) {
	var c chunkDecoder
	var buf []byte
	for {
		take := min(c.payload(), int64(len(buf)))
		content = append(content, buf[:take]...)
		buf = buf[take:]
		if take > 0 {
			c.taken(take)
		}
		used, ok := c.framing(buf)
		buf = buf[used:]
		switch {
		case !ok:
			return nil, nil, false
		case c.done():
			return content, append(buf, raw...), true
		case len(buf) > 0:
			continue
		case len(raw) == 0:
			return nil, nil, false
		}
		piece := min(n, len(raw))
		buf = append(buf, raw[:piece]...)
		raw = raw[piece:]
	}
}

// FuzzBodyChunks holds that how a body arrives does not matter, and that what
// is accepted is what net/http reads too.
func FuzzBodyChunks(f *testing.F) {
	for _, s := range []string{
		"3\r\nabc\r\n0\r\n\r\n", "3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\nrest",
		"0\r\n\r\n", "0x3\r\nabc\r\n", "3 ;a\r\nabc\r\n0\r\n\r\n", "3\nabc\n0\n\n", "fffffffffffffff\r\na",
		"000003\r\nabc\r\n00\r\n\r\nGET", "3\r\nabcd\r\n0\r\n\r\n",
	} {
		f.Add([]byte(s), 1)
	}
	f.Fuzz(func(t *testing.T, raw []byte, n int) {
		if len(raw) > 64<<10 {
			return
		}
		n = 1 + (n&0xffff)%97
		content, rest, ok := decodeChunks(raw, len(raw)+1)
		c2, r2, ok2 := decodeChunks(raw, n)
		if ok != ok2 || !bytes.Equal(content, c2) || !bytes.Equal(rest, r2) {
			t.Fatalf("whole: %q %q %v; by %d: %q %q %v", content, rest, ok, n, c2, r2, ok2)
		}
		if !ok {
			return
		}
		got, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(raw)))
		if err == nil && !bytes.Equal(got, content) {
			t.Fatalf("net/http reads %q, we %q", got, content)
		}
		if err != nil && !strings.Contains(err.Error(), "too much overhead") && !strings.Contains(err.Error(), "too long") {
			t.Fatalf("net/http: %v; we read %q", err, content)
		}
	})
}

// TestGateRandom holds FuzzGate's property for messages put together from
// parts that are hard on parsers.
func TestGateRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	pick := func(parts ...string) string { return parts[r.IntN(len(parts))] }
	// seldom takes the first part mostly.
	seldom := func(parts ...string) string {
		if r.IntN(12) > 0 {
			return parts[0]
		}
		return pick(parts...)
	}
	end := func() string { return seldom("\r\n", "\r\n", "\r\n", "\n", "\r", "\r\r\n", "\n\n", "\r\n ") }
	passed := 0
	for range 30_000 {
		var b strings.Builder
		b.WriteString(seldom("", "\r\n", "\n", " "))
		b.WriteString(seldom(pick("GET", "POST", "OPTIONS", "get", "M-SEARCH"), "PRI", "G T", "", "CONNECT") + seldom(" ", "\t", "  "))
		b.WriteString(seldom(pick("/", "/a?b", "*", "/%2e%2e/%61", "//x://y", "http://b", "http://b/c?d", "HTTP://B:8?q", "/\xff", "/a/./b/../", "/..%2f", "/a\\b"),
			"http://u@b/", "a", "/a#b", "/a b", "/%", "/\x7f", "ftp://b/", "http:///", "?a") + seldom(" ", "  ", ""))
		b.WriteString(seldom(pick("HTTP/1.1", "HTTP/1.1", "HTTP/1.0"), "HTTP/2.0", "HTTP/1.2", "http/1.1", "HTTP/1.1 ") + end())
		b.WriteString(seldom(pick("Host: a", "Host: B.c:80", "Host: [::1]", "host:a\t"), "Host:", "Host: u@a", "Host: a b", "X: y") + end())
		for range r.IntN(5) {
			name := pick("Content-Length", "content-length", "Transfer-Encoding", "Expect", "Connection", "Upgrade", "Trailer",
				"X", "Te", "Cookie", "Content-Type", "User-Agent", "Content_Length")
			b.WriteString(seldom(name, "Host", "Content Length", "Transfer-Encoding\x00", "", name+" ", " "+name))
			b.WriteString(seldom(pick(": ", ":", ":\t "), " : ", "", ": \x0b"))
			value := pick("\xff", "a\tb", "x, y", "")
			switch name {
			case "Content-Length", "content-length":
				value = seldom(pick("5", "0", "05"), "5, 5", "+5", "-1", "", "18446744073709551621")
			case "Transfer-Encoding":
				value = seldom(pick("chunked", "Chunked"), "identity", "gzip, chunked", "chunked, chunked")
			case "Expect":
				value = seldom("100-continue", "x")
			case "Connection":
				value = pick("close", "keep-alive", "upgrade", "close, upgrade", "x , CLOSE")
			case "Upgrade":
				value = pick("websocket", "h2c", "a, b")
			}
			b.WriteString(value + end())
		}
		b.WriteString(seldom("\r\n", "\n", ""))
		g, h, head, ref := passFields(b.String())
		if ref != nil || head == nil {
			continue
		}
		passed++
		checkTarget(t, &g)
		checkFields(t, h, head)
		checkRaw(t, &g, head)
		checkNetHTTP(t, &g, head)
	}
	if passed < 5_000 {
		t.Errorf("only %d messages passed: the parts test nothing", passed)
	}
	t.Logf("%d messages passed", passed)
}
