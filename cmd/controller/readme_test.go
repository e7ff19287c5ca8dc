package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flexinfer.ai/gateway/pkg/routing"
	"flexinfer.ai/gateway/pkg/translate"
)

// The README says of every knob and feature what the code says, and of no other.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme := string(b)
	for _, k := range routing.Knobs() {
		row := fmt.Sprintf("| `%s` | `--%s` | `%s` | `%s` | %s | %s |\n", k.Env, k.Flag, k.Helm, k.Default, k.Unit, k.Help)
		if !strings.Contains(readme, row) {
			t.Errorf("README.md lacks this row of the settings:\n%s", row)
		}
	}
	if n := strings.Count(readme, "| `--"); n != len(routing.Knobs()) {
		t.Errorf("README.md lists %d settings, the code has %d", n, len(routing.Knobs()))
	}
	_, list, _ := strings.Cut(readme, "conformance suite:\n\n")
	list, _, _ = strings.Cut(list, ".\n")
	var names []string
	for _, f := range translate.Features() {
		names = append(names, "`"+f+"`")
	}
	if got, want := strings.Join(strings.Fields(list), " "), strings.Join(names, ", "); got != want {
		t.Errorf("README.md lists the features\n%s\nthe code has\n%s", got, want)
	}
}
