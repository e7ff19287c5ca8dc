package main

import (
	"os"

	"flexinfer.ai/gateway/internal/cli"
)

func main() {
	ctx, env := cli.Process()
	os.Exit(program().Main(ctx, env, os.Args[1:]))
}

func program() cli.Program {
	return cli.Program{
		Name:     "controller",
		Summary:  "the control plane of FlexInfer Gateway",
		Commands: []cli.Command{runCommand(), standaloneCommand(), lintCommand(), snapshotCommand()},
	}
}
