package fastproxy

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// adminOf starts a data plane with an admin port and returns it with a function
// that asks the port.
func adminOf(t *testing.T, edit func(*Options)) (*Server, func(path string) (int, string)) {
	t.Helper()
	s := startServer(t, func(o *Options) {
		o.AdminAddress = "127.0.0.1:0"
		if edit != nil {
			edit(o)
		}
	})
	c := newClient(t)
	return s, func(path string) (int, string) {
		t.Helper()
		resp, err := c.Get("http://" + s.AdminAddr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
}

func checkAnswer(t *testing.T, ask func(string) (int, string), path string, status int, body string) {
	t.Helper()
	if gotStatus, gotBody := ask(path); gotStatus != status || gotBody != body {
		t.Errorf("%s: %d %q, want %d %q", path, gotStatus, gotBody, status, body)
	}
}

func TestAdminHealth(t *testing.T) {
	delay := 300 * time.Millisecond
	s, ask := adminOf(t, func(o *Options) { o.Settings.ShutdownDrainDelay = delay })
	checkAnswer(t, ask, "/healthz", 200, "ok\n")
	checkAnswer(t, ask, "/readyz", 503, "no configuration yet\n")
	checkAnswer(t, ask, "/debug/config", 503, "no configuration yet\n")
	cfg := oneModel(testrig.FreePort(t), routing.StrategyDefault, "10.0.0.1:8000")
	if err := s.Apply(&cfg); err != nil {
		t.Fatal(err)
	}
	checkAnswer(t, ask, "/readyz", 200, "ok\n")
	checkAnswer(t, ask, "/debug/pprof/", 404, "404 page not found\n")
	checkAnswer(t, ask, "/", 404, "404 page not found\n")

	drained := make(chan error, 1)
	go func() { drained <- s.Drain(context.Background()) }()
	waitUntil(t, "the drain has begun", s.draining.Load)
	checkAnswer(t, ask, "/readyz", 503, "draining\n") // within the drain delay
	checkAnswer(t, ask, "/healthz", 200, "ok\n")
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", s.AdminAddr().String()); err == nil {
		c.Close()
		t.Error("the admin port still listens after the drain")
	}
}

func TestAdminMetrics(t *testing.T) {
	s, ask := adminOf(t, nil)
	if status, body := ask("/metrics"); status != 200 || !strings.Contains(body, "go_goroutines ") ||
		!strings.Contains(body, "flexinfer_proxy_snapshot_apply_failures_total 0\n") {
		t.Errorf("before a configuration: %d %.300s", status, body)
	}
	cfg := oneModel(testrig.FreePort(t), routing.StrategyPrefix, "10.0.0.1:8000")
	if err := s.Apply(&cfg); err != nil {
		t.Fatal(err)
	}
	status, body := ask("/metrics")
	for _, want := range []string{
		"# TYPE flexinfer_proxy_request_duration_seconds histogram\n",
		"# TYPE flexinfer_proxy_routing_decisions_total counter\n",
		"flexinfer_proxy_active_connections{model=\"m\"} 0\n",
		"flexinfer_proxy_request_duration_seconds_bucket{model=\"m\",le=\"600\"} 0\n",
	} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("status %d, no %q in the scrape", status, want)
		}
	}
}

func TestAdminProfiles(t *testing.T) {
	_, ask := adminOf(t, func(o *Options) { o.Pprof = true })
	if status, body := ask("/debug/pprof/goroutine?debug=1"); status != 200 || !strings.Contains(body, "goroutine profile") {
		t.Errorf("%d %.100s", status, body)
	}
}

func TestAdminConfigShowsNoSecret(t *testing.T) {
	s, ask := adminOf(t, nil)
	certPEM, keyPEM := testrig.SelfSigned(t, "shown.example.com")
	cfg := oneModel(testrig.FreePort(t), routing.StrategySession, "10.0.0.1:8000")
	cfg.Listeners[0].Protocol = routing.ProtocolHTTPS
	cfg.Listeners[0].Certificates = []string{"Secret/ns/tls"}
	cfg.Certificates = []routing.Certificate{{Key: "Secret/ns/tls", CertPEM: certPEM, KeyPEM: keyPEM}}
	secrets := &routing.HeaderFilter{
		Set: []routing.Header{{Name: "authorization", Value: "Bearer hush"}, {Name: "X-Shown", Value: "shown-value"}},
		Add: []routing.Header{{Name: "X-Api-Key", Value: "hush"}},
	}
	rule := &cfg.Routes[0].Rules[0]
	rule.Filters = []routing.Filter{{RequestHeaders: secrets}, {ResponseHeaders: secrets}}
	rule.Backends[0].Filters = []routing.Filter{{RequestHeaders: secrets}}
	cfg.Generation = 7
	if err := s.Apply(&cfg); err != nil {
		t.Fatal(err)
	}
	status, body := ask("/debug/config")
	if status != 200 || strings.Contains(body, "hush") || strings.Contains(body, "PRIVATE") {
		t.Fatalf("%d %s", status, body)
	}
	for _, want := range []string{"shown-value", "shown.example.com", "10.0.0.1:8000", "HTTPRoute/ns/r", s.snapshot().Version()} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not shown", want)
		}
	}
	var shown struct {
		Generation uint64
		Backends   []struct {
			Key     string
			Targets []struct{ Address, State string }
		}
		Config struct {
			Certificates []struct{ Key, KeyPEM string }
		}
	}
	if err := json.Unmarshal([]byte(body), &shown); err != nil {
		t.Fatal(err)
	}
	if shown.Generation != 7 || len(shown.Backends) != 1 || shown.Backends[0].Targets[0].State != "Ready" ||
		shown.Config.Certificates[0].KeyPEM != redacted {
		t.Errorf("got %+v", shown)
	}
	if secrets.Set[0].Value != "Bearer hush" || string(cfg.Certificates[0].KeyPEM) != string(keyPEM) {
		t.Error("showing the configuration has changed it")
	}
}

func TestAdminAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = New(Options{AdminAddress: l.Addr().String(), Settings: routing.DefaultSettings()})
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), "free one") {
		t.Errorf("got %v", err)
	}
}

func TestAdminRefusesWrites(t *testing.T) {
	s, _ := adminOf(t, nil)
	resp, err := newClient(t).Post("http://"+s.AdminAddr().String()+"/metrics", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("status %d", resp.StatusCode)
	}
}
