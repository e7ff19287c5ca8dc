package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// createNetwork makes the network namespace, unless it is there. Its uplink leads
// nowhere: the default route exists so that load-balancer addresses, which no
// interface has, are routed at all and kube-proxy's rules see them.
func createNetwork(ctx context.Context) error {
	if _, err := os.Stat(namespacePath); err != nil {
		if err := ip(ctx, "netns", "add", namespace); err != nil {
			return err
		}
	}
	if ip(ctx, "-n", namespace, "link", "show", "uplink") == nil {
		return nil
	}
	for _, line := range []string{
		"link set lo up",
		"link add uplink type bridge", // not every kernel has type dummy
		"addr add " + nodeAddress + "/24 dev uplink",
		"link set uplink up",
		"route add default dev uplink",
	} {
		if err := ip(ctx, append([]string{"-n", namespace}, strings.Fields(line)...)...); err != nil {
			return err
		}
	}
	return nil
}

func removeNetwork(ctx context.Context) error {
	if _, err := os.Stat(namespacePath); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return ip(ctx, "netns", "del", namespace)
}

func ip(ctx context.Context, args ...string) error {
	output, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// runInside runs the command in the namespace and waits for it. `ip netns exec`
// would not do: it mounts /sys anew, without the cgroups, which the kubelet needs.
func runInside(cmd *exec.Cmd) error {
	result := make(chan error)
	go func() {
		// A child starts in its thread's namespace. The thread is not unlocked, so
		// that it ends with the goroutine and no other goroutine runs in there.
		runtime.LockOSThread()
		err := enter(namespacePath)
		if err == nil {
			err = cmd.Run()
		}
		result <- err
	}()
	return <-result
}

func enter(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering the network namespace %s: %w", path, err)
	}
	return nil
}

// processesInside are those that run in the namespace, as "ID command".
func processesInside() []string {
	want, err := os.Stat(namespacePath)
	if err != nil {
		return nil
	}
	links, _ := filepath.Glob("/proc/[0-9]*/ns/net") // the pattern is right
	var found []string
	for _, link := range links {
		if got, err := os.Stat(link); err != nil || !os.SameFile(want, got) {
			continue
		}
		process := filepath.Dir(filepath.Dir(link))
		name, err := os.ReadFile(filepath.Join(process, "comm"))
		if err != nil {
			continue
		}
		found = append(found, filepath.Base(process)+" "+strings.TrimSpace(string(name)))
	}
	return found
}

// setForwarding lets the node forward between its pods; it must be called inside.
func setForwarding() error {
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}
