package fastproxy

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fasthttp"

	"flexinfer.ai/gateway/pkg/routing"
)

// failures are all of the gateway's own answers.
var failures = map[string]*failure{
	"failNoRoute": &failNoRoute, "failModelNotFound": &failModelNotFound, "failMisdirected": &failMisdirected,
	"failBadFilter": &failBadFilter, "failNoBackend": &failNoBackend, "failBadBody": &failBadBody,
	"failBrokenCoding": &failBrokenCoding, "failUnknownCoding": &failUnknownCoding, "failBodyTimeout": &failBodyTimeout,
	"failBodyTooLarge": &failBodyTooLarge, "failBodyMemory": &failBodyMemory, "failNoEndpoint": &failNoEndpoint,
	"failConnect": &failConnect, "failQueueFull": &failQueueFull, "failModelIdle": &failModelIdle,
	"failActivation": &failActivation, "failColdTimeout": &failColdTimeout, "failBadGateway": &failBadGateway,
	"failTimeout": &failTimeout, "failClientGone": &failClientGone, "failNoModel": &failNoModel, "failNoJSON": &failNoJSON,
}

// failedExchange is an exchange on a Model route that has ended with f.
func failedExchange(t *testing.T, req *request, model bool, f *failure) *exchange {
	t.Helper()
	x := &exchange{server: &Server{options: Options{}.withDefaults()}}
	x.req = *req
	x.resp.header = &fasthttp.ResponseHeader{}
	kind := routing.BackendService
	if model {
		kind = routing.BackendModel
	}
	x.backend = &routing.CompiledBackend{Kind: kind}
	x.fail(f)
	return x
}

func TestFailureTable(t *testing.T) {
	f := func(name string, status int, code string, retry bool) {
		t.Helper()
		got := failures[name]
		if got.status != status || got.code != code || (got.retryAfter > 0) != retry {
			t.Errorf("%s: %d %s, retry after %d s; want %d %s, retry %t", name, got.status, got.code, got.retryAfter, status, code, retry)
		}
	}
	f("failModelNotFound", 404, "model_not_found", false)
	f("failNoModel", 404, "model_not_found", false)
	f("failNoJSON", 400, "invalid_request", false)
	f("failBodyTooLarge", 413, "request_too_large", false)
	f("failBadGateway", 502, "bad_gateway", false)
	f("failQueueFull", 503, "queue_full", true)
	f("failActivation", 503, "activation_failed", false)
	f("failNoEndpoint", 503, "service_unavailable", true)
	f("failConnect", 503, "service_unavailable", true)
	f("failBodyMemory", 503, "service_unavailable", true)
	f("failModelIdle", 503, "model_idle", false)
	f("failTimeout", 504, "timeout", false)
	f("failColdTimeout", 504, "timeout", false)
	f("failNoBackend", 500, "internal_error", false)
	f("failMisdirected", 421, "misdirected_request", false)
	f("failUnknownCoding", 415, "unsupported_media_type", false)
	f("failClientGone", 499, "client_closed_request", false)
	for name, fail := range failures {
		if fail.retryAfter > 30 {
			t.Errorf("%s: Retry-After over 30 s", name)
		}
		if fail.grpc == 0 || fail.message == "" || fail.code == "" || strings.ContainsAny(fail.message, "\"\\\n") {
			t.Errorf("%s is incomplete or does not fit a JSON string: %+v", name, *fail)
		}
	}
}

func TestFailureInOpenAIShape(t *testing.T) {
	req := parsedRequest(t, "POST /v1/chat/completions HTTP/1.1", "Host: example.com")
	for name, fail := range failures {
		x := failedExchange(t, req, true, fail)
		var body map[string]map[string]any
		if err := json.Unmarshal(x.resp.body, &body); err != nil {
			t.Errorf("%s: %v in %s", name, err, x.resp.body)
			continue
		}
		kind := "server_error"
		if fail.status < 500 {
			kind = "invalid_request_error"
		}
		want := map[string]any{"message": wantMessage(x, fail), "type": kind, "param": nil, "code": fail.code}
		if fail.param != "" {
			want["param"] = fail.param
		}
		if diff := cmp.Diff(map[string]map[string]any{"error": want}, body); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		checkFailureHead(t, name, x, fail, "application/json")
	}
}

func wantMessage(x *exchange, f *failure) string {
	if f.limited {
		return fmt.Sprintf("%s %d bytes", f.message, x.server.options.Limits.BodyBytes)
	}
	return f.message
}

func checkFailureHead(t *testing.T, name string, x *exchange, f *failure, contentType string) {
	t.Helper()
	h := x.resp.header
	if h.StatusCode() != f.status || string(h.ContentType()) != contentType {
		t.Errorf("%s: status %d, type %s", name, h.StatusCode(), h.ContentType())
	}
	want := ""
	if f.retryAfter > 0 {
		want = strconv.Itoa(f.retryAfter)
	}
	if got := string(h.Peek("Retry-After")); got != want {
		t.Errorf("%s: Retry-After %q, want %q", name, got, want)
	}
	if x.failed != f || x.resp.stream || x.tunnel {
		t.Errorf("%s: the exchange does not hold the failure", name)
	}
}

func TestFailureLetterByLetter(t *testing.T) {
	f := func(path string, model bool, fail *failure, want string) {
		t.Helper()
		req := parsedRequest(t, "POST "+path+" HTTP/1.1", "Host: example.com")
		if got := string(failedExchange(t, req, model, fail).resp.body); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	f("/v1/embeddings", true, &failModelNotFound, `{"error":{"message":"the model does not exist on this route: check the model field of the request","type":"invalid_request_error","param":"model","code":"model_not_found"}}`)
	f("/v1/embeddings", true, &failTimeout, `{"error":{"message":"the model's replica did not answer in time","type":"server_error","param":null,"code":"timeout"}}`)
	f("/v1/messages", true, &failQueueFull, `{"type":"error","error":{"type":"queue_full","message":"the model is starting and its queue is full: try again"}}`)
	f("/v1/messages", true, &failBodyTooLarge, `{"type":"error","error":{"type":"request_too_large","message":"the request body is larger than the limit of 33554432 bytes"}}`)
	f("/anything", false, &failNoRoute, "no route matches this host and path\n")
}

func TestFailureInAnthropicShape(t *testing.T) {
	f := func(path string, want bool) {
		t.Helper()
		req := parsedRequest(t, "POST "+path+" HTTP/1.1", "Host: example.com")
		x := failedExchange(t, req, true, &failBadGateway)
		var body struct {
			Type  string
			Error struct{ Type, Message string }
		}
		if err := json.Unmarshal(x.resp.body, &body); err != nil {
			t.Fatal(err)
		}
		if got := body.Type == "error" && body.Error.Type == "bad_gateway"; got != want {
			t.Errorf("%s: Anthropic's shape %t, want %t: %s", path, got, want, x.resp.body)
		}
		checkFailureHead(t, path, x, &failBadGateway, "application/json")
	}
	f("/v1/messages", true)
	f("/anthropic/v1/messages", true)
	f("/v1/messages/count_tokens", true)
	f("/v1/messages/batches/x?beta=true", true)
	f("/v1/messagesx", false)
	f("/v1/threads/a/messages", false)
	f("/v1/chat/completions", false)
	f("/v1/messagesx/v1/messages", true)
}

func TestFailureInPlainText(t *testing.T) {
	for name, fail := range failures {
		x := failedExchange(t, get(t, "/"), false, fail)
		if got, want := string(x.resp.body), wantMessage(x, fail)+"\n"; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		checkFailureHead(t, name, x, fail, "text/plain; charset=utf-8")
	}
}

func TestFailureOverGRPC(t *testing.T) {
	req := parsedRequest(t, "POST /pkg.Service/Method HTTP/1.1", "Host: example.com", "Content-Type: application/grpc")
	req.grpc = true
	for name, fail := range failures {
		x := failedExchange(t, req, true, fail)
		h := x.resp.header
		if h.StatusCode() != 200 || string(h.ContentType()) != "application/grpc" || len(x.resp.body) != 0 {
			t.Errorf("%s: not a trailers-only answer: %d %s %q", name, h.StatusCode(), h.ContentType(), x.resp.body)
		}
		if got := string(h.Peek("Grpc-Status")); got != strconv.Itoa(int(fail.grpc)) {
			t.Errorf("%s: Grpc-Status %s", name, got)
		}
		if got, err := url.PathUnescape(string(h.Peek("Grpc-Message"))); err != nil || got != fail.message {
			t.Errorf("%s: Grpc-Message %q, %v", name, got, err)
		}
	}
	if got := string(appendGRPCMessage(nil, "a%b\né")); got != "a%25b%0A%C3%A9" {
		t.Errorf("got %q", got)
	}
}

func TestFailureTellsAcceptedCodings(t *testing.T) {
	x := failedExchange(t, get(t, "/"), true, &failUnknownCoding)
	if got := string(x.resp.header.Peek("Accept-Encoding")); got != "gzip, zstd, br, deflate" {
		t.Errorf("got %q", got)
	}
}

func TestFailureCarriesCORS(t *testing.T) {
	x := &exchange{server: &Server{options: Options{}.withDefaults()}}
	x.req = *get(t, "/", "Origin: https://www.foo.com")
	x.resp.header = &fasthttp.ResponseHeader{}
	x.rule = &routing.CompiledRule{CORS: &corsListed}
	x.fail(&failNoEndpoint)
	want := []string{"Allow-Credentials: true", "Allow-Origin: https://www.foo.com", "Expose-Headers: x-header-3, x-header-4"}
	if diff := cmp.Diff(want, corsLines(x.resp.header)); diff != "" {
		t.Error(diff)
	}
}

func TestFailureForgetsTheEnginesHead(t *testing.T) {
	x := &exchange{server: &Server{options: Options{}.withDefaults()}}
	x.req = *get(t, "/")
	x.resp.header = parsedAnswer(t, "HTTP/1.1 200 OK", "Content-Length: 5", "X-Secret: 1", "Set-Cookie: a=b")
	x.resp.stream, x.resp.length = true, 5
	x.fail(&failBadGateway)
	if diff := cmp.Diff([]string{"Content-Type: text/plain; charset=utf-8"}, answerLines(x.resp.header)); diff != "" {
		t.Error(diff)
	}
}
