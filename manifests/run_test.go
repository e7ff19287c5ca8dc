package manifests

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// controller builds the controller.
func controller(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "controller")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../cmd/controller")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return path
}

// TestArguments starts the controller with the Deployment's arguments, on a
// machine that is no pod: it must complain of that and of nothing else. Then it
// checks the examples for a cluster.
func TestArguments(t *testing.T) {
	program := controller(t)
	c := one[*appsv1.Deployment](t, load(t, "base"), "flexinfer-controller").Spec.Template.Spec.Containers[0]
	command := exec.CommandContext(t.Context(), program, c.Args...)
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value = map[string]string{"metadata.namespace": namespace, "metadata.name": "pod"}[e.ValueFrom.FieldRef.FieldPath]
		}
		if e.Name != "GOMEMLIMIT" && e.ValueFrom != nil {
			command.Env = append(command.Env, e.Name+"="+value)
		}
	}
	output, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "this is no pod of a cluster") {
		t.Errorf("%v: %s", err, output)
	}

	load(t, "demo")
	files, err := filepath.Glob("demo/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	arguments := []string{"lint"}
	for _, file := range files {
		if filepath.Base(file) != "kustomization.yaml" {
			arguments = append(arguments, file)
		}
	}
	if output, err := exec.CommandContext(t.Context(), program, arguments...).CombinedOutput(); err != nil {
		t.Errorf("controller lint: %v\n%s", err, output)
	}
}
