package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// programs is the directory with the binaries under test.
var programs string

func TestMain(m *testing.M) {
	os.Exit(build(m))
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "e2e-programs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot make a directory for the programs:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	if race := os.Getenv("E2E_RACE"); race != "" {
		args = append(args, race)
	}
	cmd := exec.Command("go", append(args, "./cmd/controller", "./cmd/gateway")...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot build the programs:", err)
		return 1
	}
	programs = dir
	return m.Run()
}
