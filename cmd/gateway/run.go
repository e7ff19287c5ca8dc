package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"flexinfer.ai/gateway/internal/dataplane"
	"flexinfer.ai/gateway/pkg/fastproxy"
	"flexinfer.ai/gateway/pkg/routing"
)

// options are the settings of one run.
type options struct {
	snapshot string // path of the snapshot file
	serve    fastproxy.Options
	// started, if any, gets the server once its admin port is open.
	started func(*fastproxy.Server)
}

// run serves until ctx ends, then drains.
func run(ctx context.Context, o options) error {
	return dataplane.Serve(ctx, &o.serve, []string{o.snapshot}, o.started, func(s *fastproxy.Server) func() time.Duration {
		return (&gateway{path: o.snapshot, server: s, log: o.serve.Logger}).reload
	})
}

// gateway follows one snapshot file.
type gateway struct {
	path    string
	server  *fastproxy.Server
	log     *slog.Logger
	failure string // what was last said to be wrong with the file
}

// bindRetry is how long a port that could not be bound is left alone.
const bindRetry = 5 * time.Second

// reload serves what the file holds now. It returns after what time to try
// again where a port could not be bound.
func (g *gateway) reload() time.Duration {
	cfg, err := readSnapshot(g.path)
	if err != nil {
		g.complain(err)
		return 0
	}
	left, err := dataplane.Apply(g.server, cfg)
	for _, l := range left {
		g.log.Error("resource left out", "key", l.Key, "reason", l.Reason)
	}
	var refused *routing.CompileError
	switch {
	case errors.As(err, &refused):
		g.complain(err)
		return 0
	case err != nil:
		g.complain(err)
		return bindRetry
	}
	g.failure = ""
	g.log.Info("snapshot served", "file", g.path, "generation", cfg.Generation,
		"listeners", len(cfg.Listeners), "routes", len(cfg.Routes), "backends", len(cfg.Backends))
	return 0
}

// complain says once what is wrong and what goes on.
func (g *gateway) complain(err error) {
	if err.Error() == g.failure {
		return
	}
	g.failure = err.Error()
	if errors.Is(err, fs.ErrNotExist) && !g.server.Ready() {
		g.log.Info("waiting for the snapshot file", "file", g.path)
		return
	}
	goesOn := "the configuration in force goes on"
	if !g.server.Ready() {
		goesOn = "nothing is served yet"
	}
	g.log.Error("snapshot not usable as it is; "+goesOn, "file", g.path, "reason", err.Error())
}
