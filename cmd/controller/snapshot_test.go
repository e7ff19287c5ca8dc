package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"flexinfer.ai/gateway/internal/cli"
	"flexinfer.ai/gateway/pkg/routing"
)

// TestSnapshotFails: a script hears of mistakes by the exit code, and has the rest.
func TestSnapshotFails(t *testing.T) {
	good := writeGateway(t, 8080)
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
