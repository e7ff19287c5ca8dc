package cluster

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// killContainer kills the program that a pod's container is by SIGKILL, as running
// out of memory would. It needs a cluster whose nodes are this machine.
func killContainer(t *testing.T, namespace, pod, program string) {
	t.Helper()
	var p corev1.Pod
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: pod}, &p); err != nil {
		t.Fatal(err)
	}
	pid := processOf(string(p.UID), program)
	if pid == 0 {
		t.Skip("the processes of this cluster's pods are not on this machine: a container that restarts cannot be tested here")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// processOf finds a program that runs in the pod of a UID; 0: none does.
func processOf(uid, program string) int {
	groups, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, path := range groups {
		group, err := os.ReadFile(path) //nolint:gosec // a file of /proc
		if err != nil || !strings.Contains(strings.ReplaceAll(string(group), "_", "-"), uid) {
			continue
		}
		exe, err := os.Readlink(filepath.Join(filepath.Dir(path), "exe"))
		if err == nil && filepath.Base(exe) == program {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return pid
		}
	}
	return 0
}
