package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"

	"flexinfer.ai/gateway/internal/cli"
)

func snapshotCommand() cli.Command {
	return cli.Command{
		Name:    "snapshot",
		Args:    "FILE|DIR...",
		Summary: "write the configuration that the manifests mean, for gateway --snapshot",
		Help: `Translates the manifests and writes the configuration that a gateway process
serves, as JSON, to standard output; mistakes go to standard error and leave out
what they concern. The output holds the private keys of HTTPS listeners: keep it
as secret as they are.
Exit code 0: nothing found; 1: mistakes found, and the rest written; 2: wrong usage.`,
		Bind: func(_ *flag.FlagSet, env cli.Env) cli.Run {
			return func(_ context.Context, args []string) error {
				if len(args) == 0 {
					return cli.Usagef("no file given; name the files or directories to translate")
				}
				return writeSnapshot(args, env)
			}
		},
	}
}

func writeSnapshot(roots []string, env cli.Env) error {
	l := load(roots)
	if err := printText(env.Stderr, l.findings); err != nil {
		return fmt.Errorf("cannot write the findings: %w", err)
	}
	encoder := json.NewEncoder(env.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(l.config); err != nil {
		return fmt.Errorf("cannot write the configuration: %w", err)
	}
	if len(l.findings) > 0 {
		return cli.ErrReported
	}
	return nil
}
