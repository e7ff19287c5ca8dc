package fastproxy

import (
	"net"
	"net/http"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// deadEndpoint refuses connections.
func deadEndpoint(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// TestRequestMeetsAScaleDown: a request that set out for a replica which has just
// been taken away waits for another one, as one that came later would.
func TestRequestMeetsAScaleDown(t *testing.T) {
	port := testrig.FreePort(t)
	p := startProxy(t, serverless(port, deadEndpoint(t)), port, nil)
	answered := p.postLater(t.Context())
	time.Sleep(150 * time.Millisecond) // the news of the replica's end come later
	p.config.EndpointLists[0].Endpoints = nil
	p.apply()
	p.wantDemand(counts{"ns/m", 1, 0})
	p.config.EndpointLists[0].Endpoints = []routing.Endpoint{{Address: startEngine(t, http.HandlerFunc(status(200))), State: routing.EndpointReady}}
	p.apply()
	if s := <-answered; s != 200 {
		t.Errorf("answered with %d", s)
	}
}

// TestDeadReplicaOfServerlessModel: where no news come the request fails soon.
func TestDeadReplicaOfServerlessModel(t *testing.T) {
	port := testrig.FreePort(t)
	p := startProxy(t, serverless(port, deadEndpoint(t)), port, nil)
	begun := time.Now()
	if s := <-p.postLater(t.Context()); s != 503 {
		t.Errorf("answered with %d", s)
	}
	t.Logf("after %s", time.Since(begun))
	p.wantDemand()
}

// TestReplicaReplacedWhileConnecting: an endpoint that came while a connect failed
// is tried.
func TestReplicaReplacedWhileConnecting(t *testing.T) {
	port := testrig.FreePort(t)
	p := startProxy(t, serverless(port, deadEndpoint(t)), port, nil)
	answered := p.postLater(t.Context())
	time.Sleep(150 * time.Millisecond)
	p.config.EndpointLists[0].Endpoints = append(p.config.EndpointLists[0].Endpoints,
		routing.Endpoint{Address: startEngine(t, http.HandlerFunc(status(200))), State: routing.EndpointReady})
	p.apply()
	if s := <-answered; s != 200 {
		t.Errorf("answered with %d", s)
	}
}

// TestConnectFailureTriesOtherMember: the members of a group stand in for one
// another as the replicas of one Model do.
func TestConnectFailureTriesOtherMember(t *testing.T) {
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyDefault, deadEndpoint(t))
	n := cfg.Backends[0]
	n.Key, n.Name, n.Endpoints, n.Priority = "Model/ns/n", "n", "Model/ns/n", -1
	group := routing.Backend{Key: "Group/ns/g", Kind: routing.BackendGroup, Namespace: "ns", Name: "g", Members: []string{"Model/ns/m", "Model/ns/n"}}
	cfg.Backends = []routing.Backend{group, cfg.Backends[0], n}
	cfg.EndpointLists = append(cfg.EndpointLists, routing.EndpointList{
		Key: "Model/ns/n", Endpoints: []routing.Endpoint{{Address: startEngine(t, http.HandlerFunc(status(200))), State: routing.EndpointReady}},
	})
	cfg.Routes[0].Rules[0].Backends[0].Backend = "Group/ns/g"
	p := startProxy(t, cfg, port, nil)
	if s := <-p.postLater(t.Context()); s != 200 {
		t.Errorf("answered with %d", s)
	}
}

// TestServerlessPassesDraining: an engine that is told to end may take no more
// connections any time, long before it is gone. Requests wait for the next one, and
// the old one's lasting does not end the wait.
func TestServerlessPassesDraining(t *testing.T) {
	port := testrig.FreePort(t)
	cfg := serverless(port, deadEndpoint(t))
	cfg.EndpointLists[0].Endpoints[0].State = routing.EndpointDraining
	p := startProxy(t, cfg, port, nil)
	waits := p.postLater(t.Context())
	p.wantDemand(counts{"ns/m", 1, 0})
	p.config.Listeners[0].Key += "2" // any other change
	p.config.Routes[0].Listeners[0].Listener += "2"
	p.apply()
	select {
	case s := <-waits:
		t.Fatalf("answered with %d", s)
	case <-time.After(50 * time.Millisecond):
	}
	p.wantDemand(counts{"ns/m", 1, 0})
	resp, err := newClient(t).Get(p.url("/v1/models"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 503 {
		t.Errorf("a poll got %d", resp.StatusCode)
	}
	p.config.EndpointLists[0].Endpoints = append(p.config.EndpointLists[0].Endpoints,
		routing.Endpoint{Address: startEngine(t, http.HandlerFunc(status(200))), State: routing.EndpointReady})
	p.apply()
	if s := <-waits; s != 200 {
		t.Errorf("answered with %d", s)
	}
}
