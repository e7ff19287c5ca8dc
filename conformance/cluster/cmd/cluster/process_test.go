package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStartTimeTellsProcessesApart(t *testing.T) {
	own, err := startTime(os.Getpid())
	if err != nil || own == "" {
		t.Fatalf("own start time: %q, %v", own, err)
	}
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id := cmd.Process.Pid
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if born, err := startTime(id); err == nil {
		t.Errorf("a process that has ended has the start time %s", born)
	}
}

func TestLastLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintln(&text, "line", i)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := lastLines(path, 2), "  line 18\n  line 19"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := lastLines(path+"x", 2); !strings.Contains(got, "no such file") {
		t.Errorf("a log that is not there: %q", got)
	}
}

func TestParseMounts(t *testing.T) {
	got, err := parseMounts(strings.NewReader(`22 1 0:21 / /proc rw - proc proc rw
30 1 0:30 / /state/run rw shared:1 - tmpfs tmpfs rw
31 1 0:31 / /state/run/kubelet/pods/a\040b rw - tmpfs tmpfs rw
32 1 0:32 / /state/runtime rw - tmpfs tmpfs rw
33 1 0:33 / /run/c/netns/x rw - nsfs nsfs rw
`), []string{"/state/run", "/run/c"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/state/run", "/state/run/kubelet/pods/a b", "/run/c/netns/x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStatePathMustFitSockets(t *testing.T) {
	if _, err := newLayout("/" + strings.Repeat("x", 67)); err != nil {
		t.Errorf("a path of 68 bytes: %v", err)
	}
	if _, err := newLayout("/" + strings.Repeat("x", 90)); err == nil || !strings.Contains(err.Error(), "CLUSTER_STATE") {
		t.Errorf("a path of 91 bytes: %v", err)
	}
}
