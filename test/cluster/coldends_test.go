package cluster

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// The ways in which waiting for a replica ends without one: no room, the client
// leaves, the Model's operator gives up, the time is up. None of them keeps the
// next request from waiting and being served.
func TestColdStartEnds(t *testing.T) {
	w := newWorld(t)
	w.sleeper("sleeper", v1alpha2.Serverless{ColdStartTimeout: new(v1alpha2.Duration("5m"))}, 0, "--fault="+notReady)
	w.sleeper("hasty", v1alpha2.Serverless{ColdStartTimeout: new(v1alpha2.Duration("2s"))}, 0, "--fault="+notReady)
	w.route("inference", "sleeper", "hasty")
	g := newTarget(t, w.gateway("inference", 1, func(p *v1alpha2.GatewayParameters) {
		p.Spec.Proxy = &v1alpha2.ProxyParameters{MaxQueueSize: new(int32(2))}
	}))
	w.phase("sleeper", v1alpha2.PhaseIdle)

	ctx, leave := context.WithCancel(t.Context())
	answers := make(chan waited, 3)
	for range 2 {
		go g.waitFor(ctx, "sleeper", answers)
	}
	w.eventuallyWaiting("inference", "sleeper", 2)
	go g.waitFor(t.Context(), "sleeper", answers)
	(<-answers).is(t, http.StatusServiceUnavailable, "queue_full", true)
	leave()
	w.eventuallyWaiting("inference", "sleeper", 0)
	for range 2 {
		if a := <-answers; a.err == nil {
			t.Errorf("a client that left got %d %s", a.status, a.body)
		}
	}

	go g.waitFor(t.Context(), "hasty", answers)
	asked := time.Now()
	(<-answers).is(t, http.StatusGatewayTimeout, "timeout", false)
	t.Logf("coldStartTimeout 2s: answered after %v", time.Since(asked).Round(time.Millisecond))

	go g.waitFor(t.Context(), "sleeper", answers)
	w.eventuallyWaiting("inference", "sleeper", 1)
	kubectl(t, "-n", w.namespace, "patch", "model", "sleeper", "--subresource=status", "--field-manager=operator", "--type=merge", "-p", `{"status":{"phase":"Failed"}}`)
	failed := time.Now()
	(<-answers).is(t, http.StatusServiceUnavailable, "activation_failed", false)
	t.Logf("phase Failed: answered after %v", time.Since(failed).Round(time.Millisecond))

	kubectl(t, "-n", w.namespace, "patch", "model", "sleeper", "--subresource=status", "--field-manager=operator", "--type=merge", "-p", `{"status":{"phase":null}}`)
	w.phase("sleeper", v1alpha2.PhaseLoading)
	q := g.queue("sleeper", 2)
	w.eventuallyWaiting("inference", "sleeper", 2)
	w.fault(w.startedPods("sleeper", 1)[0], "")
	q.wait(t)
}

// waited is how waiting for a replica ended.
type waited struct {
	status int
	header http.Header
	body   string
	err    error
}

func (g *target) waitFor(ctx context.Context, model string, answers chan<- waited) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	response, err := g.chat(ctx, model, "", "Wake up", 4, false)
	if err != nil {
		answers <- waited{err: err}
		return
	}
	body, err := readAll(response)
	answers <- waited{response.StatusCode, response.Header, body, err}
}

// is checks an answer of the gateway itself: status, code, and whether it says
// when to try again.
func (a waited) is(t *testing.T, status int, code string, again bool) {
	t.Helper()
	if a.err != nil || a.status != status || !strings.Contains(a.body, `"code":"`+code+`"`) || (a.header.Get("Retry-After") != "") != again {
		t.Errorf("%d, Retry-After %q: %s %v; want %d %s, to be tried again: %v", a.status, a.header.Get("Retry-After"), a.body, a.err, status, code, again)
	}
}
