package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/enginesim"
	"flexinfer.ai/gateway/internal/testrig"
)

// snapshotOf translates manifests as `controller snapshot` does.
func snapshotOf(t *testing.T, manifests string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(programs, "controller"), "snapshot", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The gateway process is not ready until its snapshot file is there, follows it,
// and keeps the last good one.
func TestGatewayProcess(t *testing.T) {
	t.Parallel()
	port, admin := testrig.FreePort(t), fmt.Sprintf("127.0.0.1:%d", testrig.FreePort(t))
	g := &gateway{t: t, dir: t.TempDir(), host: fmt.Sprintf("127.0.0.1:%d", port), admin: "http://" + admin}
	g.url = "http://" + g.host
	g.process = start(t, "gateway", nil, "--snapshot", filepath.Join(g.dir, "snapshot.json"), "--bind", "127.0.0.1", "--admin", admin)
	eventually(t, "the admin port is open", func() bool {
		status, _ := tryGet(g.admin + "/healthz")
		return status == http.StatusOK
	})
	if status, _ := tryGet(g.admin + "/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d before the first snapshot, want 503", status)
	}

	manifests := strings.ReplaceAll(good(t), "%PORT%", fmt.Sprint(port))
	g.write("snapshot.json", string(snapshotOf(t, manifests)))
	g.awaitReady()
	g.expectGood()

	g.write("snapshot.json", `{"Routes": 5}`)
	g.awaitOutput("the configuration in force goes on")
	g.expectGood()
	g.write("snapshot.json", string(snapshotOf(t, strings.ReplaceAll(manifests, `["good"]`, `["better"]`))))
	eventually(t, "the new snapshot is served", func() bool {
		return g.do(request{host: "better", path: "/v1/models"}).status == http.StatusOK
	})
	if a := g.do(request{host: "good", path: "/v1/models"}); a.status != http.StatusNotFound {
		t.Errorf("the old route still answers: %d", a.status)
	}
	status, text := tryGet(g.admin + "/debug/config")
	if status != http.StatusOK || !strings.Contains(text, "better") {
		t.Errorf("/debug/config: %d %.300s", status, text)
	}
}

// SIGTERM: not ready at once, an answer that streams ends whole, and the process
// leaves with code 0.
func TestDrainEndsStreamsWhole(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 1, enginesim.Options{OutputTokens: 60, DecodeTokensPerSecond: 60})
	g := serveEnv(t, []string{"PROXY_SHUTDOWN_DRAIN_DELAY=200ms", "PROXY_GRACEFUL_SHUTDOWN_TIMEOUT=50s"},
		map[string]string{"all.yaml": gatewayYAML + modelYAML("chat", nil) +
			serviceYAML(t, "chat", ready(engines)...) + modelRouteYAML("r", "proxy", "chat")})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/chat/completions",
		strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"Talk"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "proxy"
	response, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	stopped := make(chan time.Time, 1)
	go func() {
		g.stop()
		stopped <- time.Now()
	}()
	eventually(t, "the gateway is not ready", func() bool {
		status, _ := tryGet(g.admin + "/readyz")
		return status != http.StatusOK
	})
	body, err := io.ReadAll(response.Body)
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(body)), "data: [DONE]") {
		t.Errorf("the stream was cut: %v, %d bytes", err, len(body))
	}
	ended := time.Now()
	if gone := <-stopped; gone.Before(ended.Add(-time.Second)) {
		t.Errorf("the process ended %v before its stream", ended.Sub(gone))
	}
}
