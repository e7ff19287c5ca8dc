package dataplane

import (
	"context"
	"fmt"
	"sync"
	"time"

	"flexinfer.ai/gateway/internal/filewatch"
	"flexinfer.ai/gateway/pkg/fastproxy"
)

// Serve runs a server until ctx ends, and drains it then. started, which may be
// nil, gets the server once its admin port is open; feed, which applies the
// configurations, runs beside it until the drain is over: who waits for a
// replica is still to hear of one.
func Serve(ctx context.Context, o *fastproxy.Options, started func(*fastproxy.Server), feed func(context.Context, *fastproxy.Server)) error {
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
	feeding, stop := context.WithCancel(context.WithoutCancel(ctx))
	var fed sync.WaitGroup
	fed.Go(func() { feed(feeding, server) })
	<-ctx.Done()
	err = drain(server, o)
	stop()
	fed.Wait()
	return err
}

// Follow feeds a server with what look makes of the files below roots.
func Follow(ctx context.Context, o *fastproxy.Options, roots []string, look func() time.Duration) {
	filewatch.Watch(ctx, roots, filewatch.Options{
		Refused: func(err error) { o.Logger.Warn(err.Error()) },
	}, look)
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
