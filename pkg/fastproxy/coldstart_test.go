package fastproxy

import (
	"net/http"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// TestColdGroupWaits: a group's cold-start target is waited for although another
// member has endpoints, where that member is not Ready for all that: its only
// pods are terminating, or its phase is Failed.
func TestColdGroupWaits(t *testing.T) {
	engine := startEngine(t, http.HandlerFunc(status(200)))
	f := func(name string, state routing.EndpointState, phase routing.Phase) {
		t.Helper()
		port := testrig.FreePort(t)
		cfg := oneModel(port, routing.StrategyDefault)
		cfg.Backends[0].Serverless = &routing.Serverless{ColdStartTimeout: 100 * time.Millisecond}
		cfg.Backends = append([]routing.Backend{
			{Key: "Group/ns/g", Kind: routing.BackendGroup, Namespace: "ns", Name: "g", Members: []string{"Model/ns/m", "Model/ns/n"}},
		}, cfg.Backends[0], routing.Backend{
			Key: "Model/ns/n", Kind: routing.BackendModel, Namespace: "ns", Name: "n", Endpoints: "Model/ns/n", Phase: phase,
		})
		cfg.EndpointLists = append(cfg.EndpointLists, routing.EndpointList{
			Key: "Model/ns/n", Endpoints: []routing.Endpoint{{Address: engine, State: state}},
		})
		cfg.Routes[0].Rules[0].Backends[0].Backend = "Group/ns/g"
		p := startProxy(t, cfg, port, nil)
		client := newClient(t)
		client.Timeout = 2 * time.Second
		resp := p.post(client, "/v1/chat/completions", chat)
		resp.Body.Close()
		if resp.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("%s: %d, want 504 once the wait is over", name, resp.StatusCode)
		}
	}
	f("draining", routing.EndpointDraining, "")
	f("failed", routing.EndpointReady, routing.PhaseFailed)
}
