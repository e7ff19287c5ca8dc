package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"flexinfer.ai/gateway/internal/dataplane"
	"flexinfer.ai/gateway/pkg/fastproxy"
	"flexinfer.ai/gateway/pkg/publish"
	"flexinfer.ai/gateway/pkg/routing"
)

// source is where the configuration comes from: a controller.
type source struct {
	controller, serverName, caFile, tokenFile string
	snapshot                                  string // file of the last good configuration; "": none is kept
}

// serveController serves what the controller sends until ctx ends, then drains.
// Until the controller is heard the last good configuration is served.
func serveController(ctx context.Context, from source, o fastproxy.Options) error {
	g := &gateway{log: o.Logger, lastGood: newLastGood(from.snapshot, o.Logger)}
	subscriber, err := publish.NewSubscriber(publish.SubscriberOptions{
		Logger: o.Logger, Controller: from.controller, ServerName: from.serverName, CAFile: from.caFile, TokenFile: from.tokenFile,
		Initial: g.lastGood.read(), Apply: g.apply, Demand: g.demand,
	})
	if err != nil {
		return err
	}
	o.DemandChanged = subscriber.Kick
	o.Collectors = append(o.Collectors, controllerMetrics(subscriber)...)
	return dataplane.Serve(ctx, &o, nil, func(ctx context.Context, s *fastproxy.Server) {
		g.server = s
		subscriber.Run(ctx)
		g.lastGood.close()
	})
}

// controllerMetrics tell what the controller sends.
func controllerMetrics(s *publish.Subscriber) []prometheus.Collector {
	const prefix = "flexinfer_proxy_controller_"
	counter := func(name, help string, value func(publish.Received) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: prefix + name, Help: help}, func() float64 { return float64(value(s.Received())) })
	}
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "connected",
			Help: "1 while there is a stream to the controller. What is served goes on without.",
		}, func() float64 {
			if s.Following() {
				return 1
			}
			return 0
		}),
		counter("changes_total", "Changes of the configuration that the controller sent.", func(r publish.Received) uint64 { return r.Changes }),
		counter("resources_total", "New and changed resources that the controller sent.", func(r publish.Received) uint64 { return r.Resources }),
		counter("removed_resources_total", "Removals of resources that the controller sent.", func(r publish.Received) uint64 { return r.RemovedResources }),
		counter("resource_bytes_total", "Bytes of the resources that the controller sent.", func(r publish.Received) uint64 { return r.Bytes }),
	}
}

// gateway serves what a Subscriber hands it.
type gateway struct {
	server   *fastproxy.Server
	log      *slog.Logger
	lastGood *lastGood
}

// apply serves a Config and says what became of it.
func (g *gateway) apply(cfg *routing.Config) publish.Applied {
	var out publish.Applied
	left, err := dataplane.Apply(g.server, cfg)
	for _, l := range left {
		g.log.Error("resource left out", "key", l.Key, "reason", l.Reason)
		out.Refused = append(out.Refused, publish.Refusal{Key: l.Key, Reason: l.Reason})
	}
	var refused *routing.CompileError
	switch {
	case errors.As(err, &refused):
		g.log.Error("configuration not usable; the one in force goes on", "generation", cfg.Generation, "key", refused.Key, "reason", refused.Reason)
		out.Refused = append(out.Refused, publish.Refusal{Key: refused.Key, Reason: refused.Reason})
		out.Error = err
		return out
	case err != nil:
		g.log.Error("configuration not wholly in force", "generation", cfg.Generation, "reason", err.Error())
		out.Error, out.Retry = err, dataplane.BindRetry
	default:
		logServed(g.log, cfg)
	}
	g.lastGood.write(cfg)
	return out
}

func (g *gateway) demand() []publish.ModelDemand {
	seen := g.server.Demand()
	out := make([]publish.ModelDemand, len(seen))
	for i, d := range seen {
		out[i] = publish.ModelDemand(d)
	}
	return out
}

// notThere reports whether an error says that a file does not exist.
func notThere(err error) bool { return errors.Is(err, fs.ErrNotExist) }
