package fastproxy

import (
	"net"
	"testing"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// TestZeroAttemptsForbidRetries: the Gateway API says of retry.attempts that "an
// explicit zero value MUST disable retries": also those that the gateway makes
// by itself.
func TestZeroAttemptsForbidRetries(t *testing.T) {
	refusing := net.JoinHostPort("127.0.0.1", "1") // nobody listens there
	f := func(retry *routing.Retry, want uint64) {
		t.Helper()
		port := testrig.FreePort(t)
		cfg := oneModel(port, routing.StrategyDefault, refusing, "127.0.0.2:1")
		cfg.Routes[0].Rules[0].Retry = retry
		p := startProxy(t, cfg, port, nil)
		resp := p.post(newClient(t), "/v1/chat/completions", chat)
		resp.Body.Close()
		series := attachmentOf(p.snapshot().Backend("Model/ns/m").State).model
		if got := series.retries[retryConnect].Load(); got != want || resp.StatusCode != 503 {
			t.Errorf("%+v: %d after %d further tries, want 503 after %d", retry, resp.StatusCode, got, want)
		}
	}
	f(nil, 1)
	f(&routing.Retry{Attempts: 0}, 0)
}
