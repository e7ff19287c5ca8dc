package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupMount = "/sys/fs/cgroup"

// cgroupRoots are the cluster's cgroup in every hierarchy: one with cgroup v2, one
// for each controller with v1. The kubelet puts its pods below, and the components
// are in the child "components" (a v2 cgroup has either children or processes).
func cgroupRoots() ([]string, error) {
	if unified() {
		return []string{filepath.Join(cgroupMount, clusterName)}, nil
	}
	mounted, err := filepath.Glob(filepath.Join(cgroupMount, "*", "cgroup.procs"))
	if err != nil || len(mounted) == 0 {
		return nil, fmt.Errorf("no cgroups are mounted at %s", cgroupMount)
	}
	var roots []string
	for _, procs := range mounted {
		roots = append(roots, filepath.Join(filepath.Dir(procs), clusterName))
	}
	return roots, nil
}

func unified() bool {
	_, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers"))
	return err == nil
}

// createCgroups makes the cluster's cgroups and puts this process, and so what it
// starts, among the components.
func createCgroups() error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.MkdirAll(filepath.Join(root, "components"), 0o755); err != nil {
			return err
		}
	}
	if unified() {
		if err := delegate(roots[0]); err != nil {
			return err
		}
		return join(roots[0])
	}
	if err := copyCPUSet(); err != nil {
		return err
	}
	return join(filepath.Join(cgroupMount, recordingController(), clusterName))
}

// recordingController is the v1 hierarchy that tells which processes are ours.
func recordingController() string {
	for _, name := range []string{"pids", "freezer"} {
		if _, err := os.Stat(filepath.Join(cgroupMount, name)); err == nil {
			return name
		}
	}
	return "memory" // the kubelet does not run without
}

func join(root string) error {
	return os.WriteFile(filepath.Join(root, "components", "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644)
}

// delegate passes every controller on to the cluster's children.
func delegate(root string) error {
	data, err := os.ReadFile(filepath.Join(cgroupMount, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for controller := range strings.FieldsSeq(string(data)) {
		for _, dir := range []string{cgroupMount, root} {
			err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
			if err != nil {
				return fmt.Errorf("passing the controller %s on to children of %s: %w", controller, dir, err)
			}
		}
	}
	return nil
}

// copyCPUSet gives the v1 cpuset its parent's processors and memory: it starts with
// none, and then nothing may run in it.
func copyCPUSet() error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		data, err := os.ReadFile(filepath.Join(cgroupMount, "cpuset", name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(cgroupMount, "cpuset", clusterName, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// clusterProcesses are the ids of all processes of the cluster and of its pods.
func clusterProcesses() []int {
	roots, err := cgroupRoots()
	if err != nil {
		return nil
	}
	seen := map[int]bool{os.Getpid(): true}
	var ids []int
	for _, root := range roots {
		for _, dir := range subdirectories(root) {
			data, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			for line := range strings.FieldsSeq(string(data)) {
				if id, err := strconv.Atoi(line); err == nil && !seen[id] {
					seen[id] = true
					ids = append(ids, id)
				}
			}
		}
	}
	return ids
}

// killAll ends every process of the cluster. New ones may come while it works, so
// it goes on until there is none, for at most 30 s.
func killAll(ctx context.Context) error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		ids := clusterProcesses()
		if len(ids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("these processes do not end: %v", ids)
		}
		for _, id := range ids {
			_ = unix.Kill(id, unix.SIGKILL) // it may have ended meanwhile
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// removeCgroups removes the emptied cgroups, children first. A dead process stays
// in its cgroup for a moment.
func removeCgroups(ctx context.Context) error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	for range 100 {
		var last error
		for _, root := range roots {
			dirs := subdirectories(root)
			for i := len(dirs) - 1; i >= 0; i-- {
				if err := unix.Rmdir(dirs[i]); err != nil && !errors.Is(err, unix.ENOENT) {
					last = fmt.Errorf("removing the cgroup %s: %w", dirs[i], err)
				}
			}
		}
		if err = last; err == nil {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return err
}

// subdirectories are root and all directories below, parents first.
func subdirectories(root string) []string {
	var dirs []string
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return filepath.SkipDir // removed meanwhile
		}
		if entry.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}
