package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

const usage = `usage: cluster up | down | status | load-images

CLUSTER_STATE names the directory of its programs and state (default: .cache/cluster).
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 1 when the command failed, 2 when it does not exist.
func run(ctx context.Context, args []string, out, log io.Writer) int {
	commands := map[string]func(context.Context, layout, io.Writer) error{
		"up":          up,
		"down":        down,
		"status":      status,
		"load-images": loadImages,
		// These two are started by the others.
		"up-inside":    upInside,
		"loadbalancer": runLoadBalancer,
	}
	if len(args) == 1 && slices.Contains([]string{"help", "-h", "--help"}, args[0]) {
		fmt.Fprint(out, usage)
		return 0
	}
	if len(args) != 1 || commands[args[0]] == nil {
		fmt.Fprint(log, usage)
		return 2
	}
	l, err := newLayout(os.Getenv("CLUSTER_STATE"))
	if err == nil {
		err = commands[args[0]](ctx, l, out)
	}
	if err != nil && !errors.Is(err, errReported) {
		fmt.Fprintln(log, "cluster:", err)
	}
	if err != nil {
		return 1
	}
	return 0
}

// errReported ends the program for a reason that a child process has printed.
var errReported = errors.New("reported by a child process")

func requireRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("must run as root: it makes a network namespace, mounts and cgroups. Or use another cluster: set KUBECONFIG")
	}
	return nil
}
