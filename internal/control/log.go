package control

import (
	"context"
	"log/slog"
)

// importantOnly hides what the libraries log below level info: that is about
// themselves.
type importantOnly struct{ slog.Handler }

// Enabled is false below level info.
func (h importantOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && h.Handler.Enabled(ctx, level)
}

// WithAttrs keeps the restriction.
func (h importantOnly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return importantOnly{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the restriction.
func (h importantOnly) WithGroup(name string) slog.Handler {
	return importantOnly{h.Handler.WithGroup(name)}
}
