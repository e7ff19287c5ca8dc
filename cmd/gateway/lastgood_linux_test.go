package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"flexinfer.ai/gateway/pkg/routing"
)

// A file of the last good configuration that is no such thing is passed over.
func TestLastGoodUnusable(t *testing.T) {
	directory := t.TempDir()
	f := func(name, content string) {
		t.Helper()
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		l := newLastGood(path, slog.New(slog.NewTextHandler(io.Discard, nil)))
		defer l.close()
		if cfg := l.read(); cfg != nil {
			t.Errorf("%s: %+v was read", name, cfg)
		}
	}
	f("empty", "")
	f("truncated", `{"Generation":3,"Listeners":[{"Key":"ns/g/ht`)
	f("twice", `{"Generation":3}{"Generation":4}`)
	f("newer", `{"Generation":3,"Wormholes":[]}`)
	f("binary", strings.Repeat("\x00\xff", 4096))
	f("deep", strings.Repeat("[", 1<<20))
	if err := os.Mkdir(filepath.Join(directory, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := newLastGood(filepath.Join(directory, "directory"), slog.New(slog.DiscardHandler))
	defer l.close()
	if l.read() != nil {
		t.Error("a directory was read")
	}
}

// A file is replaced whole or not at all, and processes that were killed leave
// nothing that grows.
func TestReplaceFile(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "snapshot")
	if err := replaceFile(path, &routing.Config{Generation: 1}); err != nil {
		t.Fatal(err)
	}
	for range 3 { // killed while writing
		if err := os.WriteFile(path+".new", []byte(`{"Generation":`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := replaceFile(path, &routing.Config{Generation: 2}); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(directory)
	if err != nil || len(files) != 1 {
		t.Errorf("%d files are there (%v), want one", len(files), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", info.Mode(), err)
	}
	if err := replaceFile(path, make(chan int)); err == nil {
		t.Error("what has no JSON was written")
	}
	cfg, err := readSnapshot(path)
	if err != nil || cfg.Generation != 2 {
		t.Errorf("after a write that failed: %+v, %v", cfg, err)
	}
}

// A volume that is full keeps what was good.
func TestReplaceFileDiskFull(t *testing.T) {
	directory := t.TempDir()
	if err := unix.Mount("tmpfs", directory, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("mounting needs more rights than these:", err)
	}
	defer func() { _ = unix.Unmount(directory, 0) }()
	path := filepath.Join(directory, "snapshot")
	if err := replaceFile(path, &routing.Config{Generation: 1}); err != nil {
		t.Fatal(err)
	}
	big := &routing.Config{Generation: 2, Certificates: []routing.Certificate{{Key: "Secret/ns/tls", CertPEM: make([]byte, 1<<20)}}}
	if err := replaceFile(path, big); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("writing more than there is room: %v", err)
	}
	if cfg, err := readSnapshot(path); err != nil || cfg.Generation != 1 {
		t.Errorf("after that: %+v, %v", cfg, err)
	}
	if err := replaceFile(path, &routing.Config{Generation: 3}); err != nil {
		t.Errorf("once there is room again: %v", err)
	}
}
