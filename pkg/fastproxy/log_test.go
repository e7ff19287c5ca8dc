package fastproxy

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"flexinfer.ai/gateway/internal/logline"
	"flexinfer.ai/gateway/pkg/routing"
)

// logged is what log writes at the level, without the times.
func logged(level slog.Level, log func(*decisionLog)) string {
	var b bytes.Buffer
	log(newDecisionLog(slog.New(logline.NewHandler(&b, level))))
	return regexp.MustCompile(`(?m)^\S+ `).ReplaceAllString(b.String(), "")
}

func TestDecisionLines(t *testing.T) {
	model := &routing.CompiledBackend{Name: "my-model", Strategy: routing.StrategyPrefix}
	pod := &routing.Target{Address: "10.0.0.5:8000"}
	f := func(d routing.Decision, want string) {
		t.Helper()
		if got := logged(slog.LevelDebug, func(l *decisionLog) { l.decided(&d) }); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if got := logged(slog.LevelInfo, func(l *decisionLog) { l.decided(&d) }); got != "" {
			t.Errorf("at info: %q", got)
		}
	}
	f(routing.Decision{Backend: model, Target: pod, Outcome: routing.OutcomePod, Key: routing.Key{Hash: 7, Source: routing.SourceExplicitHeader}},
		"DEBUG routing to pod model=my-model strategy=prefix target=10.0.0.5:8000 key_source=explicit-header\n")
	f(routing.Decision{Backend: model, Target: &routing.Target{Address: "10.96.0.1:80", ServiceFallback: true}, Outcome: routing.OutcomeServiceFallback},
		"DEBUG routing fallback to service model=my-model strategy=prefix key_source=none\n")
	f(routing.Decision{Backend: &routing.CompiledBackend{Name: "d", Strategy: routing.StrategyDefault}, Target: pod, Outcome: routing.OutcomePod},
		"DEBUG routing to pod model=d strategy=default target=10.0.0.5:8000 key_source=none\n")
	f(routing.Decision{Backend: model, Outcome: routing.OutcomeCold}, "")
	f(routing.Decision{Backend: model, Outcome: routing.OutcomeNone}, "")
}

func TestAccessLine(t *testing.T) {
	f := func(want string, edit func(*exchange)) {
		t.Helper()
		x := &exchange{}
		x.req = *get(t, "/v1/chat/completions?api_key=hush", "Authorization: Bearer hush")
		x.resp.header = &fasthttp.ResponseHeader{}
		x.started = 1e9
		edit(x)
		got := logged(slog.LevelInfo, func(l *decisionLog) { l.access(x, 3e9) })
		if got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if strings.Contains(got, "hush") {
			t.Errorf("a credential is in %q", got)
		}
	}
	const head = "INFO request method=GET host=example.com path=/v1/chat/completions "
	answered := func(x *exchange) {
		x.rule = &routing.CompiledRule{Route: "HTTPRoute/ns/r"}
		x.decision.Backend = &routing.CompiledBackend{Name: "m", Identity: "ns/m"}
		x.decision.Target = &routing.Target{Address: "10.0.0.5:8000"}
		x.answered = 1.5e9
	}
	f(head+"status=404 duration=2s client=192.0.2.7:41000 answer=not_found\n", func(x *exchange) { x.failed = &failNoRoute })
	f(head+"status=200 duration=2s client=192.0.2.7:41000 route=HTTPRoute/ns/r model=ns/m target=10.0.0.5:8000 first_byte=500ms\n", answered)
	f(head+"status=499 duration=2s client=192.0.2.7:41000 route=HTTPRoute/ns/r model=ns/m target=10.0.0.5:8000 first_byte=500ms cut=\"fastproxy: client has gone\"\n", func(x *exchange) {
		answered(x)
		x.streamed = errClientGone
	})
	f(head+"status=200 duration=2s client=192.0.2.7:41000 route=HTTPRoute/ns/r model=ns/m target=10.0.0.5:8000 first_byte=500ms cut=\"fastproxy: endpoint ended its response early\"\n", func(x *exchange) {
		answered(x)
		x.streamed = errUpstreamCut
	})
	f(head+"status=503 duration=2s client=192.0.2.7:41000 route=HTTPRoute/ns/r model=ns/m answer=queue_full\n", func(x *exchange) {
		answered(x)
		x.decision.Target, x.answered, x.failed = nil, 0, &failQueueFull
	})
}

func TestFinalStatus(t *testing.T) {
	f := func(want int, edit func(*exchange)) {
		t.Helper()
		x := &exchange{}
		x.resp.header = &fasthttp.ResponseHeader{}
		x.resp.header.SetStatusCode(201)
		edit(x)
		if got := x.finalStatus(); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	f(201, func(*exchange) {})
	f(504, func(x *exchange) { x.failed = &failTimeout })
	f(499, func(x *exchange) { x.failed = &failClientGone })
	f(499, func(x *exchange) { x.streamed = errClientWrite })
	f(499, func(x *exchange) { x.streamed = errors.Join(errClientGone) })
	f(201, func(x *exchange) { x.streamed = errUpstreamCut })
	f(200, func(x *exchange) { x.failed, x.req.grpc = &failTimeout, true })
	f(499, func(x *exchange) { x.failed, x.req.grpc = &failClientGone, true })
}
