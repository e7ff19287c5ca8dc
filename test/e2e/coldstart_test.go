package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/enginesim"
)

const coldBody = `{"messages": [{"role": "user", "content": "Wake up"}]}`

// serveCold serves a serverless Model whose only replica is not ready.
func serveCold(t *testing.T, env []string, spec ...string) (g *gateway, wake func(ready bool)) {
	t.Helper()
	engine := startEngines(t, 1, enginesim.Options{OutputTokens: 4})[0]
	slice := func(up bool) string { return serviceYAML(t, "sleeper", replica{engine.Addr(), up}) }
	spec = append([]string{"serverless:", "  enabled: true"}, spec...)
	g = serveEnv(t, env, map[string]string{
		"all.yaml":   gatewayYAML + modelYAML("sleeper", strategy("prefix"), spec...) + modelRouteYAML("r", "proxy", "sleeper"),
		"slice.yaml": slice(false),
	})
	return g, func(up bool) { g.write("slice.yaml", slice(up)) }
}

// code is the error code in an answer of the gateway's own.
func (a answer) code(t *testing.T) string {
	t.Helper()
	var body struct {
		Error struct {
			Message, Type, Code string
		} `json:"error"`
	}
	if err := json.Unmarshal(a.body, &body); err != nil || body.Error.Message == "" || body.Error.Type == "" {
		t.Errorf("no error body: %s", a.body)
	}
	return body.Error.Code
}

func TestColdStartQueue(t *testing.T) {
	t.Parallel()
	g, wake := serveCold(t, nil)
	for round := range 2 { // the second cold start works like the first
		const waiting = 10
		done := make(chan answer, waiting)
		for range waiting {
			go func() {
				a, err := g.try(request{host: "proxy", body: []byte(coldBody)})
				if err != nil {
					t.Error(err)
				}
				done <- a
			}()
		}
		eventually(t, "ten requests wait", func() bool {
			return total(g.scrape(), "flexinfer_proxy_queue_depth", "model", "sleeper") == waiting
		})
		poll := g.do(request{host: "proxy", path: "/v1/models"})
		if poll.status != http.StatusServiceUnavailable || poll.code(t) != "model_idle" {
			t.Errorf("a poll on a cold Model: %d %s", poll.status, poll.body)
		}
		select {
		case a := <-done:
			t.Fatalf("answered before there was a replica: %d %s", a.status, a.body)
		default:
		}
		wake(true)
		for range waiting {
			select {
			case a := <-done:
				if a.status != 200 || a.engine() != "engine-1" {
					t.Errorf("round %d: %d %s", round, a.status, a.body)
				}
			case <-time.After(patience):
				t.Fatal("a waiting request was not answered")
			}
		}
		g.expectTotal(0, "flexinfer_proxy_queue_depth", "model", "sleeper")
		wake(false)
		eventually(t, "the replica is gone", func() bool {
			return total(g.scrape(), "flexinfer_proxy_endpoint_count", "model", "sleeper") == 0
		})
	}
	g.expectTotal(20, "flexinfer_proxy_queue_wait_duration_seconds_count", "model", "sleeper")
}

func TestColdStartLimits(t *testing.T) {
	t.Parallel()
	g, wake := serveCold(t, []string{"PROXY_MAX_QUEUE_SIZE=2"})
	ctx, leave := context.WithCancel(context.Background())
	left := make(chan struct{}, 2)
	for range 2 {
		go func() {
			defer func() { left <- struct{}{} }()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(coldBody))
			if err != nil {
				t.Error(err)
				return
			}
			req.Host = "proxy"
			if response, err := client.Do(req); err == nil {
				response.Body.Close()
				t.Errorf("a request that was to wait was answered: %s", response.Status)
			}
		}()
	}
	depth := func() float64 { return total(g.scrape(), "flexinfer_proxy_queue_depth", "model", "sleeper") }
	eventually(t, "two requests wait", func() bool { return depth() == 2 })
	full := g.do(request{host: "proxy", body: []byte(coldBody)})
	if full.status != http.StatusServiceUnavailable || full.code(t) != "queue_full" || full.header.Get("Retry-After") == "" {
		t.Errorf("a full queue: %d, Retry-After %q, %s", full.status, full.header.Get("Retry-After"), full.body)
	}
	g.expectTotal(1, "flexinfer_proxy_queue_rejected_total", "model", "sleeper")

	// Clients that leave free their places at once.
	leave()
	<-left
	<-left
	eventually(t, "the queue is empty", func() bool { return depth() == 0 })
	served := make(chan answer, 1)
	go func() {
		a, err := g.try(request{host: "proxy", body: []byte(coldBody)})
		if err != nil {
			t.Error(err)
		}
		served <- a
	}()
	eventually(t, "one request waits", func() bool { return depth() == 1 })
	wake(true)
	if a := <-served; a.status != 200 {
		t.Errorf("after the others left: %d %s", a.status, a.body)
	}
}

func TestColdStartTimeout(t *testing.T) {
	t.Parallel()
	g, _ := serveCold(t, nil, "  coldStartTimeout: 300ms")
	began := time.Now()
	a := g.do(request{host: "proxy", body: []byte(coldBody)})
	if a.status != http.StatusGatewayTimeout || a.code(t) != "timeout" || time.Since(began) < 300*time.Millisecond {
		t.Errorf("after %v: %d %s", time.Since(began), a.status, a.body)
	}
}
