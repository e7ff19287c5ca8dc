package dataplane

import (
	"context"
	"fmt"

	"flexinfer.ai/gateway/pkg/fastproxy"
)

// Drain ends a server as its settings say: not ready at once, the drain delay,
// then the time that running exchanges have to end. The error says what had to
// be cut.
func Drain(s *fastproxy.Server, o *fastproxy.Options) error {
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
