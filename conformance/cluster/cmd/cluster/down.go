package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// down ends every process of the cluster and removes all that it made, apart from
// the built programs and images. When there is nothing it does nothing.
func down(ctx context.Context, l layout, out io.Writer) error {
	if err := requireRoot(); err != nil {
		return err
	}
	unlock, err := lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	other, err := owner()
	if err != nil {
		return err
	}
	if !l.owns(other) {
		return fmt.Errorf("the cluster on this machine is that of %s: end it by `CLUSTER_STATE=%s make cluster-down`", other, other)
	}
	if err := l.remove(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, "the cluster is down")
	return os.Remove(lockPath)
}

// remove goes on after an error, to leave as little as possible.
func (l layout) remove(ctx context.Context) error {
	steps := []func() error{
		func() error { return killAll(ctx) },
		func() error { return unmountBelow(l.run(), runtimeDir) },
		func() error { return foreign(processesInside()) },
		func() error { return removeNetwork(ctx) },
		func() error { return removeCgroups(ctx) },
		l.removeTraces,
		func() error { return os.RemoveAll(l.run()) },
		func() error { return os.RemoveAll(l.kubeconfig()) },
		func() error { return os.RemoveAll(runtimeDir) },
	}
	var all error
	for _, step := range steps {
		all = errors.Join(all, step())
	}
	return all
}

// foreign tells of processes that somebody else runs in the namespace: they are not
// ours to end, and keep its network alive.
func foreign(processes []string) error {
	if len(processes) == 0 {
		return nil
	}
	return fmt.Errorf("these processes were started in the cluster's network and still run, end them: %s", strings.Join(processes, ", "))
}
