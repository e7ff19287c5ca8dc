package filewatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Options of Watch; a zero member means its default.
type Options struct {
	Quiet time.Duration // no event for this long ends a burst; 100 ms
	Bound time.Duration // a burst is reported after this long at the latest; 1 s
	Poll  time.Duration // how often to look where watching is refused; 2 s
	// Refused hears, once, that watching is not possible and why.
	Refused func(error)
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{{&o.Quiet, 100 * time.Millisecond}, {&o.Bound, time.Second}, {&o.Poll, 2 * time.Second}} {
		if *d.value <= 0 {
			*d.value = d.def
		}
	}
	if o.Refused == nil {
		o.Refused = func(error) {}
	}
	return o
}

// Watch calls look, in the caller's goroutine, whenever one of the roots (files
// or directories, which need not exist yet) may have changed, until ctx ends. It
// calls it once at the start, after the watches are in place. Look returns after
// what time it wants to be called again without any change; 0: it does not.
func Watch(ctx context.Context, roots []string, o Options, look func() time.Duration) {
	o = o.withDefaults()
	w := &watch{roots: roots, known: map[string]os.FileInfo{}, options: o}
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		w.refuse(err)
	} else {
		w.fs = fs
		defer func() { _ = fs.Close() }()
	}
	w.loop(ctx, look)
}

type watch struct {
	roots   []string
	options Options
	fs      *fsnotify.Watcher // nil where the system has none
	// interests are the names in each watched directory that count.
	interests map[string]interest
	known     map[string]os.FileInfo // watched directories, as they were when watched
	polling   bool
}

func (w *watch) loop(ctx context.Context, look func() time.Duration) {
	var events chan fsnotify.Event
	var failures chan error
	if w.fs != nil {
		events, failures = w.fs.Events, w.fs.Errors
	}
	var quiet <-chan time.Time
	var bound time.Time
	again := w.lookAgain(look)
	stir := func() {
		now := time.Now()
		if quiet == nil {
			bound = now.Add(w.options.Bound)
		}
		quiet = time.After(min(w.options.Quiet, max(0, bound.Sub(now))))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if w.lost(e) || w.counts(e) {
				stir()
			}
		case err := <-failures:
			// An overflow lost events: look at everything.
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				stir()
			} else {
				w.refuse(err)
			}
		case <-quiet:
			quiet = nil
			again = w.lookAgain(look)
		case <-again:
			again = w.lookAgain(look)
		}
		if w.polling && again == nil {
			again = time.After(w.options.Poll)
		}
	}
}

// lost says whether e tells that a watched directory has gone from its place,
// and forgets its watch. A new directory in that place may well have the old
// one's inode number, so renew could not tell them apart.
func (w *watch) lost(e fsnotify.Event) bool {
	if _, ok := w.known[e.Name]; !ok || !e.Has(fsnotify.Remove) && !e.Has(fsnotify.Rename) {
		return false
	}
	_ = w.fs.Remove(e.Name)
	delete(w.known, e.Name)
	return true
}

// lookAgain renews the watches, looks, and returns when to look next without
// any event; nil: never.
func (w *watch) lookAgain(look func() time.Duration) <-chan time.Time {
	w.renew()
	after := look()
	if w.polling && (after == 0 || after > w.options.Poll) {
		after = w.options.Poll
	}
	if after == 0 {
		return nil
	}
	return time.After(after)
}

// refuse starts polling and says why.
func (w *watch) refuse(err error) {
	if w.polling {
		return
	}
	w.polling = true
	w.options.Refused(fmt.Errorf("cannot watch files (%w), looking every %s instead; "+
		"raising fs.inotify.max_user_watches and max_user_instances usually mends it", err, w.options.Poll))
}

// renew makes the watched directories those that the roots lead through now.
func (w *watch) renew() {
	w.interests = interestsOf(w.roots)
	if w.fs == nil {
		return
	}
	for dir, info := range w.known {
		now, err := os.Stat(dir)
		if _, wanted := w.interests[dir]; wanted && err == nil && os.SameFile(now, info) {
			continue
		}
		_ = w.fs.Remove(dir) // it may have gone by itself
		delete(w.known, dir)
	}
	for dir := range w.interests {
		if _, ok := w.known[dir]; ok {
			continue
		}
		info, err := os.Stat(dir)
		if err != nil {
			continue // gone between two looks: its parent will tell
		}
		if err := w.fs.Add(dir); err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				w.refuse(err)
			}
			continue
		}
		w.known[dir] = info
	}
}
