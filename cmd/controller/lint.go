package main

import (
	"context"
	"flag"
	"fmt"

	"flexinfer.ai/gateway/internal/cli"
)

func lintCommand() cli.Command {
	return cli.Command{
		Name:    "lint",
		Args:    "FILE|DIR...",
		Summary: "check manifests as standalone would serve them",
		Help: `Decodes and translates the files and directories together, as one configuration.
Prints every mistake as "file: object: field: what is wrong and how to mend it".
Exit code 0: nothing found; 1: mistakes found; 2: wrong usage.`,
		Bind: func(flags *flag.FlagSet, env cli.Env) cli.Run {
			form := "text"
			cli.Choice(flags, &form, "o", []string{"text", "json"}, "`FORM` of the output")
			return func(_ context.Context, args []string) error {
				if len(args) == 0 {
					return cli.Usagef("no file given; name the files or directories to check")
				}
				return lint(args, form, env)
			}
		},
	}
}

func lint(roots []string, form string, env cli.Env) error {
	l := load(roots)
	write := printText
	if form == "json" {
		write = printJSON
	}
	if err := write(env.Stdout, l.findings); err != nil {
		return fmt.Errorf("cannot write the findings: %w", err)
	}
	if len(l.findings) > 0 {
		return cli.ErrReported
	}
	return nil
}
