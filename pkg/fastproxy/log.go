package fastproxy

import (
	"context"
	"log/slog"
	"time"

	"flexinfer.ai/gateway/pkg/routing"
)

// decisionLog writes a line for each routing decision at debug level, and one
// for each request where the access log is on. Keys, prompts, queries and
// credentials never get in.
type decisionLog struct {
	logger *slog.Logger
}

func newDecisionLog(l *slog.Logger) *decisionLog { return &decisionLog{logger: l} }

// decided logs d; messages and fields are contract. No cost beyond the check of
// the level where it is off.
func (l *decisionLog) decided(d *routing.Decision) {
	ctx := context.Background()
	if !l.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	model := slog.String("model", d.Backend.Name)
	strategy := slog.String("strategy", string(d.Backend.Strategy))
	source := slog.String("key_source", d.Key.Source.String())
	switch d.Outcome {
	case routing.OutcomePod:
		l.logger.LogAttrs(ctx, slog.LevelDebug, "routing to pod",
			model, strategy, slog.String("target", d.Target.Address), source)
	case routing.OutcomeServiceFallback:
		l.logger.LogAttrs(ctx, slog.LevelDebug, "routing fallback to service", model, strategy, source)
	}
}

// access logs an exchange at its end, at the time now in Unix nanoseconds.
func (l *decisionLog) access(x *exchange, now int64) {
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs,
		slog.String("method", string(x.req.method)),
		slog.String("host", string(x.req.host)),
		slog.String("path", string(x.req.matchPath)),
		slog.Int("status", x.finalStatus()),
		slog.Duration("duration", time.Duration(now-x.started)),
		slog.String("client", string(x.req.remote)),
	)
	if x.rule != nil {
		attrs = append(attrs, slog.String("route", x.rule.Route))
	}
	if b := x.decision.Backend; b != nil {
		attrs = append(attrs, slog.String("model", b.Identity))
	}
	if x.answered != 0 {
		attrs = append(attrs,
			slog.String("target", x.decision.Target.Address),
			slog.Duration("first_byte", time.Duration(x.answered-x.started)))
	}
	if x.failed != nil {
		attrs = append(attrs, slog.String("answer", x.failed.code))
	}
	if x.streamed != nil {
		attrs = append(attrs, slog.String("cut", x.streamed.Error()))
	}
	l.logger.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs...)
}
