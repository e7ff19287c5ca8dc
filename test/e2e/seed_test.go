package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"flexinfer.ai/gateway/internal/enginesim"
)

// The examples of the routing documentation, as a client sends them.

func servePrefix(t *testing.T) (*gateway, []*enginesim.Engine) {
	t.Helper()
	engines := startEngines(t, 4, enginesim.Options{OutputTokens: 8})
	return serve(t, map[string]string{"all.yaml": gatewayYAML +
		modelYAML("my-model", strategy("prefix")) + serviceYAML(t, "my-model", ready(engines)...) +
		modelRouteYAML("r", "proxy", "my-model")}), engines
}

func (g *gateway) chat(host, body string, header map[string]string) answer {
	g.t.Helper()
	a := g.do(request{host: host, body: []byte(body), header: header})
	if a.status != 200 || a.engine() == "" {
		g.t.Fatalf("status %d, engine %q: %s", a.status, a.engine(), a.body)
	}
	return a
}

func TestSeedPrefixExamples(t *testing.T) {
	t.Parallel()
	g, _ := servePrefix(t)
	const system = `{"role": "system", "content": "You are an expert Python developer..."}`
	one := g.chat("proxy", `{"messages": [`+system+`, {"role": "user", "content": "How do I use decorators?"}]}`, nil)
	two := g.chat("proxy", `{"messages": [`+system+`, {"role": "user", "content": "Explain async/await"}]}`, nil)
	if one.engine() != two.engine() {
		t.Errorf("the same system prompt went to %s and %s", one.engine(), two.engine())
	}

	const key = "tenant-a/doc-42"
	byHeader := g.chat("proxy", `{"messages": [{"role": "user", "content": "Summarize this document"}]}`,
		map[string]string{"X-Flexinfer-Cache-Key": key})
	byBody := g.chat("proxy", `{
  "cache_key": "tenant-a/doc-42",
  "messages": [{"role": "user", "content": "Summarize this document"}]
}`, nil)
	byOtherBody := g.chat("proxy", `{"cacheKey": "tenant-a/doc-42", "messages": [{"role": "user", "content": "Another question"}]}`, nil)
	if byHeader.engine() != byBody.engine() || byBody.engine() != byOtherBody.engine() {
		t.Errorf("one cache key went to %s, %s and %s", byHeader.engine(), byBody.engine(), byOtherBody.engine())
	}

	const decisions = "flexinfer_proxy_routing_decisions_total"
	for source, want := range map[string]float64{"canonical": 2, "explicit-header": 1, "explicit-body": 2} {
		g.expectTotal(want, decisions, "model", "my-model", "strategy", "prefix", "key_source", source, "outcome", "pod")
	}
	// Keys spread: one engine for everything would satisfy all of the above.
	seen := map[string]bool{}
	for i := range 40 {
		seen[g.chat("proxy", `{"messages": [{"role": "user", "content": "Hello"}]}`, map[string]string{"X-Flexinfer-Cache-Key": fmt.Sprint("key-", i)}).engine()] = true
	}
	if len(seen) != 4 {
		t.Errorf("40 keys reached %d of 4 engines", len(seen))
	}
	line := regexp.MustCompile(`routing to pod"? model=my-model strategy=prefix target=127\.0\.0\.1:\d+ key_source=explicit-header`)
	eventually(t, "the decision is logged", func() bool { return line.MatchString(g.output.String()) })
	if strings.Contains(g.output.String(), key) || strings.Contains(g.output.String(), "Python developer") {
		t.Error("a key or a prompt is in the log")
	}
}

// No pod and a Service that can be dialled: the Service is, and the log says so.
func TestSeedServiceFallback(t *testing.T) {
	t.Parallel()
	engine := startEngines(t, 1, enginesim.Options{OutputTokens: 8})[0]
	g := serve(t, map[string]string{"all.yaml": gatewayYAML +
		modelYAML("my-model", strategy("prefix")) + serviceYAML(t, "my-model", replica{engine.Addr(), false}) +
		modelRouteYAML("r", "proxy", "my-model")})
	if a := g.do(request{host: "proxy", path: "/v1/models"}); a.status != 200 || a.engine() != "engine-1" {
		t.Errorf("status %d, engine %q: %s", a.status, a.engine(), a.body)
	}
	g.expectTotal(1, "flexinfer_proxy_routing_decisions_total", "model", "my-model", "strategy", "prefix", "key_source", "none", "outcome", "service-fallback")
	g.expectTotal(1, "flexinfer_proxy_routing_target_hits_total", "model", "my-model", "strategy", "prefix", "target", "service-dns")
	line := regexp.MustCompile(`routing fallback to service"? model=my-model strategy=prefix key_source=none`)
	eventually(t, "the fallback is logged", func() bool { return line.MatchString(g.output.String()) })
}

// A conversation that grows sticks to one engine with no session id at all.
func TestSeedSessionSticksOver50Turns(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 4, enginesim.Options{OutputTokens: 16})
	g := serve(t, map[string]string{"all.yaml": gatewayYAML +
		modelYAML("my-model", strategy("session-affinity")) + serviceYAML(t, "my-model", ready(engines)...) +
		modelRouteYAML("r", "proxy", "my-model")})

	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	type body struct {
		Messages []message `json:"messages"`
	}
	talk := func(opening string, turns int) string {
		conversation := []message{{"system", "You are helpful."}, {"user", opening}}
		engine := ""
		for turn := range turns {
			b, err := json.Marshal(body{conversation})
			if err != nil {
				t.Fatal(err)
			}
			a := g.chat("proxy", string(b), nil)
			if engine != "" && a.engine() != engine {
				t.Fatalf("turn %d of %q went to %s, the ones before to %s", turn+1, opening, a.engine(), engine)
			}
			engine = a.engine()
			var got struct {
				Choices []struct {
					Message message `json:"message"`
				} `json:"choices"`
			}
			if err := json.Unmarshal(a.body, &got); err != nil {
				t.Fatal(err)
			}
			conversation = append(conversation, got.Choices[0].Message, message{"user", fmt.Sprint("And then? ", turn)})
		}
		return engine
	}
	talk("Hello", 50)
	seen := map[string]bool{}
	for i := range 30 {
		seen[talk(fmt.Sprint("Conversation number ", i), 1)] = true
	}
	if len(seen) != 4 {
		t.Errorf("30 conversations reached %d of 4 engines", len(seen))
	}

	// The documentation's session example: the header decides, whatever is said.
	session := map[string]string{"X-Session-ID": "user-123-conversation-456"}
	first := g.chat("proxy", `{"messages": [{"role": "user", "content": "Hello"}]}`, session)
	for _, form := range []func(string) answer{
		func(b string) answer { return g.chat("proxy", b, session) },
		func(b string) answer {
			return g.chat("proxy", b, map[string]string{"X-Conversation-ID": "user-123-conversation-456"})
		},
		func(b string) answer {
			return g.chat("proxy", `{"session_id": "user-123-conversation-456",`+b[1:], nil)
		},
	} {
		for i := range 5 {
			if a := form(fmt.Sprintf(`{"messages": [{"role": "user", "content": "Turn %d"}]}`, i)); a.engine() != first.engine() {
				t.Errorf("one session went to %s and %s", first.engine(), a.engine())
			}
		}
	}
}
