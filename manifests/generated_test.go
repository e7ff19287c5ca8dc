package manifests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGenerated generates what is generated anew and compares.
func TestGenerated(t *testing.T) {
	f := func(remedy, committed string, files []string, arguments ...string) {
		t.Helper()
		out := t.TempDir()
		for i, a := range arguments {
			if a[len(a)-1] == '=' {
				arguments[i] = a + out
			}
		}
		command := exec.CommandContext(t.Context(), "go", append([]string{"tool", "-modfile=tools/go.mod", "controller-gen"}, arguments...)...)
		command.Dir = ".."
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command.Args, err, output)
		}
		for _, file := range files {
			want, err := os.ReadFile(filepath.Join(out, file))
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(committed, file))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, got) {
				t.Errorf("%s is not what its source says: run `go generate %s` (-generated +committed):\n%s",
					filepath.Join(committed, file), remedy, cmp.Diff(string(want), string(got)))
			}
		}
	}
	f("./internal/control", "base", []string{"role.yaml"},
		"rbac:roleName=flexinfer-controller", "paths=./internal/control", "output:rbac:dir=")
	f("./pkg/api/v1alpha2", "crd", []string{"inference.flexinfer.ai_gatewayparameters.yaml", "inference.flexinfer.ai_models.yaml"},
		"crd", "paths=./pkg/api/v1alpha2", "output:crd:dir=")
	f("./pkg/api/v1alpha2", "../pkg/api/v1alpha2", []string{"zz_generated.deepcopy.go"},
		"object", "paths=./pkg/api/v1alpha2", "output:object:dir=")
}
