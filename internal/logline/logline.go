// Package logline is the text form of the log: one line a record, the message
// as it is written in the code, unquoted, then the attributes as key=value:
//
//	2026-01-02T15:04:05.000Z DEBUG routing to pod model=my-model strategy=prefix
//
// so that a search for a documented line finds it. Values are quoted by the
// rules of slog.TextHandler where they need it. It is a slog.Handler, safe for
// concurrent use; each record is one Write.
package logline

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const timeForm = "2006-01-02T15:04:05.000Z07:00"

// handler writes the head of a line itself and leaves the attributes to a
// slog.TextHandler, whose own head it suppresses.
type handler struct {
	out   *output
	attrs slog.Handler // writes to out.attrs
}

// output is shared by a handler and those made from it.
type output struct {
	mu          sync.Mutex
	w           io.Writer
	line, attrs bytes.Buffer
}

// hidden stands for the message in what the inner handler gets: no record's
// attribute has this value.
const hidden = "\x00logline"

// NewHandler returns a handler that writes records of at least level to w.
func NewHandler(w io.Writer, level slog.Leveler) slog.Handler {
	out := &output{w: w}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: dropHead}
	return &handler{out: out, attrs: slog.NewTextHandler(&out.attrs, options)}
}

func dropHead(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.LevelKey:
		if _, ok := a.Value.Any().(slog.Level); ok {
			return slog.Attr{}
		}
	case slog.MessageKey:
		if a.Value.String() == hidden {
			return slog.Attr{}
		}
	}
	return a
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.attrs.Enabled(ctx, level)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{out: h.out, attrs: h.attrs.WithAttrs(attrs)}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{out: h.out, attrs: h.attrs.WithGroup(name)}
}

// Handle writes one line. The error is the writer's.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	// Without a time the inner handler writes none.
	inner := slog.NewRecord(time.Time{}, r.Level, hidden, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		inner.AddAttrs(a)
		return true
	})
	o := h.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.attrs.Reset()
	if err := h.attrs.Handle(ctx, inner); err != nil {
		return err
	}
	o.line.Reset()
	if !r.Time.IsZero() {
		o.line.WriteString(r.Time.Format(timeForm))
		o.line.WriteByte(' ')
	}
	o.line.WriteString(r.Level.String())
	o.line.WriteByte(' ')
	o.line.WriteString(strings.Map(oneLine, r.Message))
	if o.attrs.Len() > len("\n") {
		o.line.WriteByte(' ')
	}
	o.line.Write(o.attrs.Bytes())
	_, err := o.w.Write(o.line.Bytes())
	return err
}

// oneLine keeps a message on its line.
func oneLine(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}
