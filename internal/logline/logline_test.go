package logline

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestLines(t *testing.T) {
	f := func(want string, log func(*slog.Logger)) {
		t.Helper()
		var b bytes.Buffer
		log(slog.New(NewHandler(&b, slog.LevelDebug)))
		head := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d) `)
		if !head.MatchString(b.String()) {
			t.Fatalf("%q does not begin with a time", b.String())
		}
		if got := head.ReplaceAllString(b.String(), ""); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	f("INFO hello\n", func(l *slog.Logger) { l.Info("hello") })
	f("DEBUG routing to pod model=my-model strategy=prefix target=10.0.0.5:8000 key_source=explicit-header\n", func(l *slog.Logger) {
		l.Debug("routing to pod", "model", "my-model", "strategy", "prefix", "target", "10.0.0.5:8000", "key_source", "explicit-header")
	})
	f("WARN a b c=\"d e\" f=1\n", func(l *slog.Logger) { l.Warn("a\nb", "c", "d e", "f", 1) })
	f("ERROR x a=1 g.b=2\n", func(l *slog.Logger) { l.With("a", 1).WithGroup("g").Error("x", "b", 2) })
	f("INFO x msg=m level=l time=t\n", func(l *slog.Logger) { l.Info("x", "msg", "m", "level", "l", "time", "t") })
}

func TestLevel(t *testing.T) {
	var b bytes.Buffer
	l := slog.New(NewHandler(&b, slog.LevelInfo))
	l.Debug("no")
	l.Info("yes")
	if got := b.String(); strings.Contains(got, "no") || !strings.Contains(got, "yes") {
		t.Errorf("got %q", got)
	}
}

func TestLinesStayWholeUnderConcurrency(t *testing.T) {
	var b bytes.Buffer
	l := slog.New(NewHandler(&b, slog.LevelInfo))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				l.With("worker", i).Info("line", "d", time.Second)
			}
		})
	}
	wg.Wait()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 800 {
		t.Fatalf("%d lines, want 800", len(lines))
	}
	whole := regexp.MustCompile(`^\S+ INFO line worker=\d d=1s$`)
	for _, line := range lines {
		if !whole.MatchString(line) {
			t.Fatalf("broken line %q", line)
		}
	}
}
