package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"

	"flexinfer.ai/gateway/internal/cli"
	"flexinfer.ai/gateway/internal/dataplane"
	"flexinfer.ai/gateway/pkg/fastproxy"
)

func standaloneCommand() cli.Command {
	return cli.Command{
		Name:    "standalone",
		Args:    "[FILE|DIR...]",
		Summary: "serve manifests from files, without a cluster",
		Help: `Reads Gateway API YAML with Models (Gateway, HTTPRoute, Model, Service,
EndpointSlice, Secret, ...) from files, serves it in this process and follows the
files' changes. EndpointSlices may hold loopback addresses. Mistakes are printed
as "file: object: field: what is wrong and how to mend it"; the rest is served.`,
		Bind: func(flags *flag.FlagSet, env cli.Env) cli.Run {
			var f dataplane.Flags
			var roots []string
			f.Bind(flags, env)
			cli.List(flags, &roots, "manifests", "`DIR` or file to read, with everything below it; may be repeated, and further ones may follow as arguments")
			return func(ctx context.Context, args []string) error {
				roots = append(roots, args...)
				if len(roots) == 0 {
					return cli.Usagef("no manifests given; name their directory with --manifests=DIR")
				}
				logger := f.Log.Logger(env.Stderr)
				serve, err := f.Options(logger)
				if err != nil {
					return err
				}
				return standalone(ctx, standaloneOptions{manifests: roots, serve: serve, report: reporter(&f.Log, env, logger)})
			}
		},
	}
}

// standaloneOptions are the settings of one run.
type standaloneOptions struct {
	manifests []string // files and directories
	serve     fastproxy.Options
	// report gets every finding when it comes up and when it is gone.
	report func(f finding, gone bool)
	// started, if any, gets the server once its admin port is open.
	started func(*fastproxy.Server)
}

// standalone serves until ctx ends, then drains.
func standalone(ctx context.Context, o standaloneOptions) error {
	return dataplane.Serve(ctx, &o.serve, o.started, func(ctx context.Context, s *fastproxy.Server) {
		f := &follower{roots: o.manifests, server: s, log: o.serve.Logger, report: o.report}
		dataplane.Follow(ctx, &o.serve, o.manifests, f.follow)
	})
}

// reporter prints findings as lines for people, or as log records where the log
// is made for machines.
func reporter(o *cli.LogOptions, env cli.Env, logger *slog.Logger) func(finding, bool) {
	if o.Format == "json" {
		return func(f finding, gone bool) {
			if gone {
				logger.Info("finding gone", "file", f.File, "object", f.Object, "field", f.Field, "message", f.Message)
				return
			}
			logger.Error("finding", "file", f.File, "object", f.Object, "field", f.Field, "message", f.Message)
		}
	}
	return func(f finding, gone bool) {
		prefix := "error"
		if gone {
			prefix = "mended"
		}
		_, _ = fmt.Fprintf(env.Stderr, "%s: %s\n", prefix, f)
	}
}
