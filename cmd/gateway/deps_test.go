package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The data plane knows nothing of Kubernetes, and pkg/routing little of anything.
func TestDependencies(t *testing.T) {
	f := func(pkg string, forbidden ...string) {
		t.Helper()
		out, err := exec.Command("go", "list", "-deps", pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("go list -deps %s: %v\n%s", pkg, err, out)
		}
		deps := strings.Fields(string(out))
		if len(deps) < 10 {
			t.Fatalf("go list -deps %s lists only %q", pkg, deps)
		}
		for _, dep := range deps {
			for _, no := range forbidden {
				if dep == no || strings.HasPrefix(dep, no+"/") {
					t.Errorf("%s imports %s", pkg, dep)
				}
			}
		}
	}
	f("flexinfer.ai/gateway/cmd/gateway", "k8s.io", "sigs.k8s.io")
	f("flexinfer.ai/gateway/pkg/fastproxy", "k8s.io", "sigs.k8s.io", "flexinfer.ai/gateway/pkg/translate")
	f("flexinfer.ai/gateway/pkg/routing", "k8s.io", "sigs.k8s.io", "net/http", "log/slog", "os/exec",
		"github.com/valyala/fasthttp", "github.com/prometheus")
	f("flexinfer.ai/gateway/pkg/translate", "k8s.io/client-go", "flexinfer.ai/gateway/pkg/fastproxy", "github.com/valyala/fasthttp")
}
