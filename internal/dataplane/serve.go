package dataplane

import (
	"context"
	"fmt"
	"time"

	"flexinfer.ai/gateway/internal/filewatch"
	"flexinfer.ai/gateway/pkg/fastproxy"
)

// Serve runs a server on what follow makes of the files below roots, until ctx
// ends, and drains it then. started, which may be nil, gets the server once its
// admin port is open; follow returns what filewatch.Watch calls.
func Serve(ctx context.Context, o *fastproxy.Options, roots []string, started func(*fastproxy.Server), follow func(*fastproxy.Server) func() time.Duration) error {
	server, err := fastproxy.New(*o)
	if err != nil {
		return err
	}
	if a := server.AdminAddr(); a != nil {
		o.Logger.Info("admin port open", "address", a.String())
	}
	if started != nil {
		started(server)
	}
	filewatch.Watch(ctx, roots, filewatch.Options{
		Refused: func(err error) { o.Logger.Warn(err.Error()) },
	}, follow(server))
	return drain(server, o)
}

// drain ends a server as its settings say: not ready at once, the drain delay,
// then the time that running exchanges have to end. The error says what had to
// be cut.
func drain(s *fastproxy.Server, o *fastproxy.Options) error {
	settings := &o.Settings
	o.Logger.Info("draining", "delay", settings.ShutdownDrainDelay, "timeout", settings.GracefulShutdownTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), settings.ShutdownDrainDelay+settings.GracefulShutdownTimeout)
	defer cancel()
	if err := s.Drain(ctx); err != nil {
		return fmt.Errorf("drained incompletely: %w; a longer --graceful-shutdown-timeout gives running exchanges more time", err)
	}
	o.Logger.Info("drained")
	return nil
}
