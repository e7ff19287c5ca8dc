package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReadManifestsPipe: a pipe or device below a directory is a finding; read,
// it would keep the process for ever.
func TestReadManifestsPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "p.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan []finding, 1)
	go func() {
		_, findings, _ := readManifests([]string{dir})
		done <- findings
	}()
	select {
	case findings := <-done:
		if len(findings) != 1 || !strings.Contains(findings[0].Message, "no regular file") {
			t.Errorf("got %v, want one finding on p.yaml", findings)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the pipe is waited for")
	}
}
