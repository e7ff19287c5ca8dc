package main

import (
	"context"
	"flag"
	"net"
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
		Help: `Serves the routing configuration that the controller named by --controller sends,
or the one in the file named by --snapshot, and follows its changes. With both, the
file keeps the last good configuration for a start without the controller. Not
ready (/readyz answers 503) until the first configuration is served, and from
SIGTERM on, which drains: nothing that runs is lost within the time-outs.`,
		Bind: func(flags *flag.FlagSet, env cli.Env) cli.Run {
			var f dataplane.Flags
			f.Bind(flags, env)
			var from source
			flags.StringVar(&from.controller, "controller", "", "`HOST:PORT` of the controller that sends the configuration; its certificate must be for that host")
			flags.StringVar(&from.serverName, "controller-server-name", "", "`NAME` that the controller's certificate must have instead of the host of --controller")
			flags.StringVar(&from.caFile, "controller-ca", "", "`FILE` with the certificates by which the controller is trusted, PEM")
			flags.StringVar(&from.tokenFile, "token", "", "`FILE` with the token that proves to the controller whose gateway this is")
			flags.StringVar(&from.snapshot, "snapshot", "", "`FILE` with the configuration as JSON (controller snapshot writes it); with --controller: where the last good one is kept")
			return func(ctx context.Context, _ []string) error {
				if err := from.check(); err != nil {
					return err
				}
				o, err := f.Options(f.Log.Logger(env.Stderr))
				if err != nil {
					return err
				}
				if from.controller == "" {
					return serveFile(ctx, from.snapshot, o)
				}
				return serveController(ctx, from, o)
			}
		},
	}
}

// check says what is missing or wrong about the flags.
func (s *source) check() error {
	if s.controller == "" {
		for name, value := range map[string]string{"controller-server-name": s.serverName, "controller-ca": s.caFile, "token": s.tokenFile} {
			if value != "" {
				return cli.Usagef("flag --%s is of no use without a controller; name one with --controller=HOST:PORT", name)
			}
		}
		if s.snapshot == "" {
			return cli.Usagef("there is nothing to serve; name a snapshot file with --snapshot=FILE or a controller with --controller=HOST:PORT")
		}
		return nil
	}
	host, port, err := net.SplitHostPort(s.controller)
	if err != nil || host == "" || port == "" {
		return cli.Usagef("flag --controller: %q is no HOST:PORT; give one such as flexinfer-controller.flexinfer-system.svc:8443", s.controller)
	}
	if s.caFile == "" {
		return cli.Usagef("--controller needs the certificates to trust it by; name their file with --controller-ca=FILE")
	}
	if s.tokenFile == "" {
		return cli.Usagef("--controller needs a token to prove whose gateway this is; name its file with --token=FILE")
	}
	return nil
}
