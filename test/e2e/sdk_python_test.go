package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPythonSDKs runs python/*.py, each against a gateway of its own. It is never
// skipped: a run without the SDKs says how to get them.
func TestPythonSDKs(t *testing.T) {
	t.Parallel()
	python := os.Getenv("E2E_PYTHON")
	if python == "" {
		t.Fatal("E2E_PYTHON names no Python with the SDKs: run the tests by make e2e, " +
			"or make python and E2E_PYTHON=$PWD/.venv/bin/python")
	}
	scripts, err := filepath.Glob("python/*_sdk.py")
	if err != nil || len(scripts) != 2 {
		t.Fatalf("scripts %q, %v; want two", scripts, err)
	}
	for _, script := range scripts {
		t.Run(filepath.Base(script), func(t *testing.T) {
			t.Parallel()
			g := serveSDK(t)
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, python, script, g.url).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "all checks hold") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
