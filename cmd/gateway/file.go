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

// serveFile serves what a snapshot file holds until ctx ends, then drains.
func serveFile(ctx context.Context, path string, o fastproxy.Options) error {
	return dataplane.Serve(ctx, &o, nil, func(ctx context.Context, s *fastproxy.Server) {
		f := &fileFollower{path: path, server: s, log: o.Logger}
		dataplane.Follow(ctx, &o, []string{path}, f.reload)
	})
}

// fileFollower keeps a server at what one file says.
type fileFollower struct {
	path    string
	server  *fastproxy.Server
	log     *slog.Logger
	failure string // what was last said to be wrong with the file
}

// reload serves what the file holds now. It returns after what time to try
// again where a port could not be bound.
func (f *fileFollower) reload() time.Duration {
	cfg, err := readSnapshot(f.path)
	if err != nil {
		f.complain(err)
		return 0
	}
	left, err := dataplane.Apply(f.server, cfg)
	for _, l := range left {
		f.log.Error("resource left out", "key", l.Key, "reason", l.Reason)
	}
	var refused *routing.CompileError
	switch {
	case errors.As(err, &refused):
		f.complain(err)
		return 0
	case err != nil:
		f.complain(err)
		return dataplane.BindRetry
	}
	f.failure = ""
	logServed(f.log, cfg)
	return 0
}

// logServed says what is served now.
func logServed(log *slog.Logger, cfg *routing.Config) {
	log.Info("snapshot served", "generation", cfg.Generation,
		"listeners", len(cfg.Listeners), "routes", len(cfg.Routes), "backends", len(cfg.Backends))
}

// complain says once what is wrong and what goes on.
func (f *fileFollower) complain(err error) {
	if err.Error() == f.failure {
		return
	}
	f.failure = err.Error()
	if errors.Is(err, fs.ErrNotExist) && !f.server.Ready() {
		f.log.Info("waiting for the snapshot file", "file", f.path)
		return
	}
	goesOn := "the configuration in force goes on"
	if !f.server.Ready() {
		goesOn = "nothing is served yet"
	}
	f.log.Error("snapshot not usable as it is; "+goesOn, "file", f.path, "reason", err.Error())
}
