package fastproxy

import (
	"bufio"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// parsedRequest reads a head of LF-separated lines as the front would hand it on.
func parsedRequest(t testing.TB, lines ...string) *request {
	t.Helper()
	h := &fasthttp.RequestHeader{}
	h.SetNoDefaultContentType(true)
	raw := strings.Join(lines, "\r\n") + "\r\n\r\n"
	if err := h.Read(bufio.NewReader(strings.NewReader(raw))); err != nil {
		t.Fatalf("cannot read %q: %v", raw, err)
	}
	req := &request{header: h, method: h.Method(), remote: []byte("192.0.2.7:41000")}
	var target requestTarget
	var scratch []byte
	if r := target.parse(h.Method(), h.RequestURI(), h.Host(), &scratch); r != nil {
		t.Fatalf("target of %q refused: %s", raw, r.text)
	}
	req.target, req.path, req.query = target.target, target.path, target.query
	req.matchPath, req.authority, req.host = target.canonical, target.authority, target.host
	return req
}

// get is parsedRequest of a GET with further field lines.
func get(t testing.TB, target string, fields ...string) *request {
	t.Helper()
	return parsedRequest(t, append([]string{"GET " + target + " HTTP/1.1", "Host: example.com"}, fields...)...)
}

// parsedAnswer reads an answer's head.
func parsedAnswer(t testing.TB, lines ...string) *fasthttp.ResponseHeader {
	t.Helper()
	h := &fasthttp.ResponseHeader{}
	h.SetNoDefaultContentType(true)
	raw := strings.Join(lines, "\r\n") + "\r\n\r\n"
	if err := h.Read(bufio.NewReader(strings.NewReader(raw))); err != nil {
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
