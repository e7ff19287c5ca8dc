package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Process is the real environment of a program, with a context that ends at the
// first interrupt, SIGTERM or, where it is not ignored (nohup), SIGHUP; the
// second one ends the process at once.
func Process() (context.Context, Env) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop)
	return ctx, Env{Stdout: os.Stdout, Stderr: os.Stderr, Lookup: os.LookupEnv}
}
