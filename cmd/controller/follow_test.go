package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flexinfer.ai/gateway/pkg/fastproxy"
	"flexinfer.ai/gateway/pkg/routing"
)

// Only what is new or gone is told.
func TestTell(t *testing.T) {
	var told []string
	f := follower{report: func(f finding, gone bool) {
		if gone {
			told = append(told, "gone "+f.Message)
			return
		}
		told = append(told, f.Message)
	}}
	a, b, c := finding{Message: "a"}, finding{Message: "b"}, finding{Message: "c"}
	step := func(now []finding, want ...string) {
		t.Helper()
		told = nil
		f.tell(now)
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("%v: %s", now, diff)
		}
	}
	step([]finding{a, b}, "a", "b")
	step([]finding{a, b})
	step([]finding{b, c, c}, "c", "gone a")
	step(nil, "gone b", "gone c")
	step([]finding{a}, "a")
}

// writeGateway writes the manifest of a Gateway on a port and returns its path.
func writeGateway(t *testing.T, port uint16) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gw.yaml")
	manifest := fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec: {gatewayClassName: flexinfer, listeners: [{name: http, port: %d, protocol: HTTP}]}
`, port)
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newFollower follows the directory of a Gateway on a port; the test says what
// becomes of what it logs and reports.
func newFollower(t *testing.T, port uint16) *follower {
	t.Helper()
	server, err := fastproxy.New(fastproxy.Options{
		BindAddress: "127.0.0.1", Settings: routing.DefaultSettings(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Drain(ended)
	})
	return &follower{roots: []string{filepath.Dir(writeGateway(t, port))}, server: server, log: slog.New(slog.DiscardHandler)}
}

// A port that stays taken is told once, however often it is tried, and so is that it
// was got at last.
func TestFollowTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	var told []string
	f := newFollower(t, uint16(taken.Addr().(*net.TCPAddr).Port))
	f.log = slog.New(slog.NewTextHandler(&logged, nil))
	f.report = func(_ finding, gone bool) { told = append(told, fmt.Sprint(gone)) }
	step := func(retry bool, lines int, want ...string) {
		t.Helper()
		if again := f.follow() > 0; again != retry {
			t.Errorf("tried again: %v, want %v", again, retry)
		}
		if n := strings.Count(logged.String(), "configuration served"); n != lines {
			t.Errorf("%d lines, want %d:\n%s", n, lines, logged.String())
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Error(diff)
		}
	}
	step(true, 1, "false")
	step(true, 1, "false")
	taken.Close()
	step(false, 2, "false", "true")
	step(false, 2, "false", "true")
}

func TestSameConfig(t *testing.T) {
	a := &routing.Config{Generation: 1, Backends: []routing.Backend{{Key: "Model/ns/m"}}}
	b := &routing.Config{Generation: 2, Backends: []routing.Backend{{Key: "Model/ns/m"}}}
	if !sameConfig(a, b) || a.Generation != 1 {
		t.Error("a Config of another generation is not the same")
	}
	b.Backends[0].Priority = 1
	if sameConfig(a, b) {
		t.Error("a changed Config is the same")
	}
}

func TestFindingAt(t *testing.T) {
	l := load([]string{"../../manifests/examples"})
	if len(l.findings) > 0 {
		t.Fatal(l.findings)
	}
	f := func(key, want string) {
		t.Helper()
		got := l.findingAt(key, "is broken")
		got.Line = 0
		if got.String() != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	f("Model/flexinfer-system/chat-prefix", "../../manifests/examples/model-prefix.yaml: Model flexinfer-system/chat-prefix: is broken")
	f("Service/flexinfer-system/engines:18000", "../../manifests/examples/engines.yaml: Service flexinfer-system/engines: is broken")
	f("flexinfer-system/inference/http", "../../manifests/examples/gateway.yaml: Gateway flexinfer-system/inference: listener http is broken")
	f("Group/flexinfer-system/orpheus-tts", "Group flexinfer-system/orpheus-tts: is broken")
	f("odd", "odd: is broken")
}
