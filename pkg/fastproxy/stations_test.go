package fastproxy

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// parsedRequest reads a head of CRLF-joined lines as the front would hand it on.
func parsedRequest(t testing.TB, lines ...string) *request {
	t.Helper()
	raw := strings.Join(lines, "\r\n") + "\r\n\r\n"
	g, h, _, r := passFields(raw)
	if r != nil {
		t.Fatalf("%q refused: %s", raw, r.text)
	}
	h.SetNoDefaultContentType(true)
	tg := &g.target
	return &request{
		header: h, method: g.method, remote: []byte("192.0.2.7:41000"),
		target: tg.target, path: tg.path, query: tg.query,
		matchPath: tg.canonical, authority: tg.authority, host: tg.host,
	}
}

// get is parsedRequest of a GET with further field lines.
func get(t testing.TB, target string, fields ...string) *request {
	t.Helper()
	return parsedRequest(t, append([]string{"GET " + target + " HTTP/1.1", "Host: example.com"}, fields...)...)
}

// parsedAnswer reads an answer's head.
func parsedAnswer(t testing.TB, lines ...string) *fasthttp.ResponseHeader {
	t.Helper()
	raw := strings.Join(lines, "\r\n") + "\r\n\r\n"
	h := &fasthttp.ResponseHeader{}
	head := responseHead{fields: h, asked: []byte("websocket")}
	if err := head.parse([]byte(raw)); err != nil {
		t.Fatalf("cannot read %q: %v", raw, err)
	}
	return h
}

// requestLines are the field lines that h goes out with, in order.
func requestLines(h *fasthttp.RequestHeader) []string { return fieldLines(string(h.Header())) }

// answerLines are the field lines that h goes out with, in order, without Date.
func answerLines(h *fasthttp.ResponseHeader) []string {
	var out []string
	for _, line := range fieldLines(string(h.Header())) {
		if !strings.HasPrefix(line, "Date: ") {
			out = append(out, line)
		}
	}
	return out
}

func fieldLines(head string) []string {
	lines := strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
	return lines[1:]
}
