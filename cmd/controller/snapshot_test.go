package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flexinfer.ai/gateway/internal/cli"
	"flexinfer.ai/gateway/pkg/routing"
)

// TestSnapshotFails: a script hears of mistakes by the exit code, and has the rest.
func TestSnapshotFails(t *testing.T) {
	good := filepath.Join(t.TempDir(), "gw.yaml")
	manifest := `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec: {gatewayClassName: flexinfer, listeners: [{name: http, port: 8080, protocol: HTTP}]}
`
	if err := os.WriteFile(good, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(want error, says string, roots ...string) {
		t.Helper()
		var out, told bytes.Buffer
		if err := writeSnapshot(roots, cli.Env{Stdout: &out, Stderr: &told}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", roots, err, want)
		}
		if !strings.Contains(told.String(), says) {
			t.Errorf("%s: told %q, want %q", roots, told.String(), says)
		}
		var c routing.Config
		if err := json.Unmarshal(out.Bytes(), &c); err != nil || len(c.Listeners) != 1 {
			t.Errorf("%s: %d listeners, %v; want one", roots, len(c.Listeners), err)
		}
	}
	f(nil, "", good)
	f(cli.ErrReported, "does not exist", good, good+".typo")
}
