package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// removeTraces removes what programs that were killed leave in places that cannot
// be configured: the shims' sockets, the CNI library's results, the kubelet's links
// to logs and its socket for device plugins. It needs the runtime directory.
func (l layout) removeTraces() error {
	traces := shimSockets()
	traces = append(traces, matching("/var/lib/cni/results/*", func(path string) bool {
		content, err := os.ReadFile(path) // it names the sandbox's network namespace
		return err == nil && bytes.Contains(content, []byte(runtimeDir+"/"))
	})...)
	traces = append(traces, matching("/var/log/containers/*.log", func(path string) bool {
		target, err := os.Readlink(path)
		return err == nil && strings.HasPrefix(target, l.run()+"/")
	})...)
	if other, err := owner(); err == nil && other != "" {
		traces = append(traces, "/var/lib/kubelet/device-plugins/kubelet.sock")
	}
	var all error
	for _, path := range traces {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	for _, dir := range []string{
		"/var/lib/cni/results", "/var/lib/cni", "/var/lib/kubelet/device-plugins", "/var/lib/kubelet",
		"/var/log/containers", "/run/containerd/s", "/run/containerd",
	} {
		err := unix.Rmdir(dir)
		if err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.ENOENT) {
			all = errors.Join(all, &fs.PathError{Op: "rmdir", Path: dir, Err: err})
		}
	}
	return all
}

// shimSockets are those that containerd has noted beside its containers.
func shimSockets() []string {
	notes, _ := filepath.Glob(filepath.Join(containerdState(), "io.containerd.runtime.v2.task", "*", "*", "address")) // the pattern is right
	var sockets []string
	for _, note := range notes {
		address, err := os.ReadFile(note)
		if socket, found := strings.CutPrefix(strings.TrimSpace(string(address)), "unix://"); err == nil && found {
			sockets = append(sockets, socket)
		}
	}
	return sockets
}

func matching(pattern string, keep func(path string) bool) []string {
	paths, _ := filepath.Glob(pattern) // the patterns are right
	var kept []string
	for _, path := range paths {
		if keep(path) {
			kept = append(kept, path)
		}
	}
	return kept
}
