package cluster

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// Three Models of three engines each behind one Gateway, one path for all: the
// OpenAI SDK reaches each, keys stick, and metrics say so.
func TestModels(t *testing.T) {
	w := newWorld(t)
	strategies := map[string]string{
		"session": v1alpha2.RoutingSessionAffinity, "prefix": v1alpha2.RoutingPrefix, "loaded": v1alpha2.RoutingLeastLoaded,
	}
	for model, strategy := range strategies {
		w.model(engines{model: model, strategy: strategy, replicas: 3, flags: []string{"--time-scale=0.05"}})
	}
	w.route("inference", "session", "prefix", "loaded")
	address := w.gateway("inference", 2)
	g := newTarget(t, address)
	for model := range strategies {
		g.reaches(t, model)
		sdkReaches(t, "http://"+address, model)
	}

	// A session, and a prompt's beginning, stay with one engine; both spread.
	for model, key := range map[string]func(i int) (session, prompt string){
		"session": func(i int) (string, string) { return fmt.Sprintf("user-%d", i), "same for all" },
		"prefix":  func(i int) (string, string) { return "", fmt.Sprintf("You answer for customer %d.", i) },
	} {
		used := map[string]bool{}
		for i := range 30 {
			session, prompt := key(i)
			first, err := g.ask(t.Context(), model, session, prompt)
			if err != nil || first.status != http.StatusOK {
				t.Fatalf("%s: %d %s %v", model, first.status, first.body, err)
			}
			used[first.engine] = true
			for range 3 {
				if again, err := g.ask(t.Context(), model, session, prompt); err != nil || again.engine != first.engine {
					t.Errorf("%s: key %d went to %s, then to %s (%v)", model, i, first.engine, again.engine, err)
				}
			}
		}
		if len(used) != 3 {
			t.Errorf("%s: 30 keys use %d of 3 engines", model, len(used))
		}
	}
	pods := w.gatewayPods("inference")
	if len(pods) != 2 {
		t.Fatalf("%d gateway pods, want 2", len(pods))
	}
	decisions := func(labels map[string]string) float64 {
		return sum(t, pods, "flexinfer_proxy_routing_decisions_total", labels)
	}
	for model, strategy := range strategies {
		if n := decisions(map[string]string{"model": model, "strategy": strategy}); n == 0 {
			t.Errorf("the metrics know no decision by %s for %s", strategy, model)
		}
	}
	for model := range strategies {
		if n := decisions(map[string]string{"model": model, "outcome": "service-fallback"}); n != 0 {
			t.Errorf("%v requests for %s went to its Service, not to a replica", n, model)
		}
	}
	if n := decisions(map[string]string{"model": "session", "outcome": "pod"}); n < 120 {
		t.Errorf("the metrics know %v picks of a replica by session, want at least 120", n)
	}
}

// sdkReaches asks a Model through the official SDK, whole and streamed.
func sdkReaches(t *testing.T, url, model string) {
	t.Helper()
	sdk := openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("test"), option.WithMaxRetries(0))
	params := openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be terse."), openai.UserMessage("Hello")},
	}
	whole, err := sdk.Chat.Completions.New(t.Context(), params)
	if err != nil || len(whole.Choices) != 1 || whole.Choices[0].Message.Content == "" {
		t.Fatalf("%s: %+v %v", model, whole, err)
	}
	stream := sdk.Chat.Completions.NewStreaming(t.Context(), params)
	text := ""
	for stream.Next() {
		for _, c := range stream.Current().Choices {
			text += c.Delta.Content
		}
	}
	if stream.Err() != nil || text != whole.Choices[0].Message.Content {
		t.Errorf("%s streams %q, %v; whole %q", model, text, stream.Err(), whole.Choices[0].Message.Content)
	}
}
