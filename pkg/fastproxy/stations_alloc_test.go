//go:build !race

package fastproxy

import (
	"testing"

	"github.com/valyala/fasthttp"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// allocFree fails the test where f allocates in the steady state.
func allocFree(t *testing.T, name string, f func()) {
	t.Helper()
	for range 10 {
		f()
	}
	if n := testing.AllocsPerRun(200, f); n != 0 {
		t.Errorf("%s: %v allocations a run", name, n)
	}
}

func TestHeaderEditsDoNotAllocate(t *testing.T) {
	req := get(t, "/foo/a?b=c", "Accept: */*", "Connection: keep-alive, x-hop", "X-Hop: 1", "Keep-Alive: timeout=5",
		"X-Forwarded-For: 10.0.0.1", "Authorization: Bearer x", "Cookie: a=b", "X-A: 1", "X-A: 2", "TE: trailers")
	original := req.header
	h := &fasthttp.RequestHeader{}
	req.header = h
	filter := &routing.HeaderFilter{
		Set:    []routing.Header{{Name: "x-set", Value: "1"}, {Name: "x-a", Value: "2"}},
		Add:    []routing.Header{{Name: "X-Add", Value: "3"}, {Name: "Authorization", Value: "4"}},
		Remove: []string{"Cookie", "X-None"},
	}
	allocFree(t, "request", func() {
		original.CopyTo(h)
		applyRequestHeaders(h, filter)
		stripHopByHop(h)
		forwardedFields(h, req)
	})
	answer := parsedAnswer(t, "HTTP/1.1 200 OK", "Content-Length: 0", "Connection: keep-alive", "Vary: a", "X-A: 1", "Set-Cookie: a=b")
	out := &fasthttp.ResponseHeader{}
	allocFree(t, "answer", func() {
		answer.CopyTo(out)
		stripResponseHopByHop(out)
		applyResponseHeaders(out, filter)
	})
	origin := get(t, "/", "Origin: https://www.foo.com")
	allocFree(t, "CORS", func() {
		answer.CopyTo(out)
		corsApply(&corsListed, origin, out)
	})
}

func TestTargetsDoNotAllocate(t *testing.T) {
	req := get(t, "/foo/a%2fb/%7e?b=c")
	rewrite := &routing.PathRewrite{Type: routing.ReplacePrefixMatch, Value: "/xyz"}
	redirect := &routing.RedirectFilter{Scheme: "https", Port: 8443, Path: rewrite}
	var dst []byte
	allocFree(t, "rewrite and redirect", func() {
		dst = rewriteTarget(dst[:0], req, rewrite, "/foo")
		dst = redirectLocation(dst[:0], req, redirect, "/foo", 80)
	})
}

func TestFailuresDoNotAllocate(t *testing.T) {
	x := failedExchange(t, parsedRequest(t, "POST /v1/chat/completions HTTP/1.1", "Host: a"), true, &failNoEndpoint)
	allocFree(t, "failure", func() { x.fail(&failNoEndpoint) })
}

func TestRecordingDoesNotAllocate(t *testing.T) {
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyPrefix, "10.0.0.1:8000", "10.0.0.2:8000")
	cfg.Backends = append([]routing.Backend{{
		Key: "Group/ns/g", Kind: routing.BackendGroup, Namespace: "ns", Name: "g", Members: []string{"Model/ns/m"},
	}}, cfg.Backends...)
	s := startProxy(t, cfg, port, nil).Server
	x := &exchange{server: s}
	x.req = *get(t, "/")
	x.resp.header = &fasthttp.ResponseHeader{}
	x.resp.header.SetStatusCode(200)
	x.started, x.answered = 1, 2e9
	x.decision = decide(t, s, "Group/ns/g", headers{"X-Flexinfer-Cache-Key": "k"})
	x.decision.Malformed.Body = true
	allocFree(t, "record", func() {
		s.decided(&x.decision, true)
		s.metrics.retried(x.decision.Backend.State, retryStale)
		s.record(x, 5e9)
	})
}
