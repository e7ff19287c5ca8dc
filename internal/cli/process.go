package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Process is the real environment of a program, with a context that ends at the
// first interrupt or SIGTERM; the second one ends the process at once.
func Process() (context.Context, Env) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, Env{Stdout: os.Stdout, Stderr: os.Stderr, Lookup: os.LookupEnv}
}
