package cli

import (
	"flag"
	"io"
	"log/slog"

	"flexinfer.ai/gateway/internal/logline"
)

// LogOptions say how much a program logs and in which form.
type LogOptions struct {
	Level  string // debug, info, warn, error
	Format string // text, json
}

// Bind declares the logging flags.
func (o *LogOptions) Bind(flags *flag.FlagSet) {
	o.Level, o.Format = "info", "text"
	Choice(flags, &o.Level, "log-level", []string{"debug", "info", "warn", "error"},
		"least `LEVEL` that is logged; at debug, one line per routing decision")
	Choice(flags, &o.Format, "log-format", []string{"text", "json"}, "`FORM` of the log lines")
}

// Logger returns the logger that writes to w.
func (o *LogOptions) Logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.Level)); err != nil {
		level = slog.LevelInfo
	}
	if o.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(logline.NewHandler(w, level))
}
