package main

import (
	"context"
	"flag"
	"os"

	"flexinfer.ai/gateway/internal/cli"
	"flexinfer.ai/gateway/internal/dataplane"
)

func main() {
	ctx, env := cli.Process()
	os.Exit(command().Main(ctx, env, os.Args[1:]))
}

func command() cli.Command {
	return cli.Command{
		Name:    "gateway",
		Summary: "serve a snapshot: the data plane of FlexInfer Gateway",
		Help: `Serves the routing configuration in the file named by --snapshot and follows its
changes. Not ready (/readyz answers 503) until the first configuration is served,
and from SIGTERM on, which drains: nothing that runs is lost within the time-outs.`,
		Bind: func(flags *flag.FlagSet, env cli.Env) cli.Run {
			var f dataplane.Flags
			f.Bind(flags, env)
			snapshot := flags.String("snapshot", "", "`FILE` with the configuration as JSON (controller snapshot writes it); required")
			return func(ctx context.Context, _ []string) error {
				if *snapshot == "" {
					return cli.Usagef("no snapshot file given; name it with --snapshot=FILE")
				}
				logger := f.Log.Logger(env.Stderr)
				serve, err := f.Options(logger)
				if err != nil {
					return err
				}
				return run(ctx, options{snapshot: *snapshot, serve: serve})
			}
		},
	}
}
