package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const startTimeout = 2 * time.Minute // of one component, on a busy machine

// up starts what does not run yet and returns when the node and CoreDNS are ready.
// When everything runs, it changes nothing but the images that were built anew.
func up(ctx context.Context, l layout, out io.Writer) error {
	if err := requireRoot(); err != nil {
		return err
	}
	began := time.Now()
	unlock, err := lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.takeOver(ctx, out); err != nil {
		return err
	}
	if err := installPackages(ctx, out); err != nil {
		return err
	}
	if err := createNetwork(ctx); err != nil {
		return err
	}
	inside := exec.CommandContext(ctx, l.program("cluster"), "up-inside")
	inside.Cancel = func() error { return inside.Process.Signal(os.Interrupt) }
	// It must not go on without the lock.
	inside.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	inside.Env = append(os.Environ(), "CLUSTER_STATE="+l.state)
	inside.Stdout, inside.Stderr = out, os.Stderr
	if err := runInside(inside); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			fmt.Fprintln(os.Stderr, "The rest still runs, to be looked at: `make cluster-up` tries again, `make cluster-down` ends it.")
			return errReported
		}
		return err
	}
	fmt.Fprintf(out, "the cluster is up (%.1f s). Its network has no link to the outside; run a command in there by\n\n"+
		"    conformance/cluster/run kubectl get pods -A\n\nKUBECONFIG=%s\n", time.Since(began).Seconds(), l.kubeconfig())
	return nil
}

// takeOver makes this state directory the owner of the machine's one cluster. It
// removes what a dead cluster of another directory left, and refuses to touch one
// that lives.
func (l layout) takeOver(ctx context.Context, out io.Writer) error {
	other, err := owner()
	if err != nil {
		return err
	}
	processes := clusterProcesses()
	if !l.owns(other) && len(processes) > 0 {
		return fmt.Errorf("the cluster of %s runs on this machine, and there can be one: end it there by `make cluster-down`, or here by `CLUSTER_STATE=%s make cluster-down`", other, other)
	}
	if len(processes) == 0 {
		// Whatever there is, it is the rest of a cluster that was killed.
		if other != "" {
			fmt.Fprintln(out, "removing what a cluster that did not end by cluster-down left behind")
			if err := (layout{other}).remove(ctx); err != nil {
				return err
			}
		}
		if err := l.remove(ctx); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(runtimeDir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(ownerFile(), []byte(l.state), 0o644)
}

// upInside is the part of `up` that runs in the network namespace. It is a process
// of its own, a member of the cluster's cgroup, and so are its children.
func upInside(ctx context.Context, l layout, out io.Writer) error {
	if err := l.prepare(); err != nil {
		return err
	}
	images := l.buildImagesInBackground()
	fmt.Fprintln(out, "starting etcd, the API server and containerd")
	if err := startAndWait(ctx, l.controlPlane()); err != nil {
		return err
	}
	fmt.Fprintln(out, "starting the controller manager, the scheduler, the kubelet, kube-proxy and the load balancer")
	for _, c := range l.nodeComponents() {
		if err := c.start(); err != nil {
			return err
		}
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		built := <-images
		if built.err != nil {
			return built.err
		}
		return l.importImages(groupCtx, built.images, out)
	})
	group.Go(func() error { return waitAll(groupCtx, l.nodeComponents()) })
	group.Go(func() error { return l.applyCoreDNS(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Fprintln(out, "waiting for the node and CoreDNS")
	return l.waitReady(ctx)
}

func (l layout) prepare() error {
	if err := createCgroups(); err != nil {
		return err
	}
	if err := setForwarding(); err != nil {
		return err
	}
	for _, dir := range []string{l.run("kubelet"), l.run("pod-logs"), l.run("log")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"} {
		if err := os.Symlink("kubernetes", l.program(name)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	if _, err := os.Stat(l.program("kubernetes")); err != nil {
		return fmt.Errorf("the programs are not built, use `make cluster-up`: %w", err)
	}
	if err := l.writePKI(); err != nil {
		return err
	}
	return l.writeConfigurations()
}

func startAndWait(ctx context.Context, components []component) error {
	for _, c := range components {
		if err := c.start(); err != nil {
			return err
		}
	}
	return waitAll(ctx, components)
}

// waitAll returns the error of the first component that fails; the others then are
// not waited for.
func waitAll(ctx context.Context, components []component) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range components {
		group.Go(func() error { return c.wait(ctx, startTimeout) })
	}
	return group.Wait()
}

func (l layout) applyCoreDNS(ctx context.Context) error {
	// The API server makes this namespace a moment after it is ready.
	for range 100 {
		if l.kubectl(ctx, "get", "namespace", "kube-system") == nil {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return l.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", l.run("coredns.yaml"))
}

func (l layout) kubectl(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, l.program("kubectl"), append([]string{"--kubeconfig=" + l.kubeconfig()}, args...)...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl %s: %w\n%s", args[0], err, output)
	}
	return nil
}
