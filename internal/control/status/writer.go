package status

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner is the field manager of everything the controller writes.
const FieldOwner = "flexinfer-controller"

// writeTimeout bounds one write.
const writeTimeout = 15 * time.Second

// newsTime is how soon the news of a write are looked for where something else is
// to be written by now.
const newsTime = 200 * time.Millisecond

// conflictRetry is how long the news of a conflicting write may take; then a
// translation is asked for.
const conflictRetry = 2 * time.Second

// Client writes the status of an object and fills the object with the answer;
// client.Client's Status() is one.
type Client interface {
	Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error
}

// Options are the parts of a Writer.
type Options struct {
	Client      Client
	Concurrency int // writes at a time; 0: 8
	// Again asks for another translation. It must not block.
	Again   func()
	Metrics *Metrics
	Logger  *slog.Logger
}

// Writer writes statuses.
type Writer struct {
	opts Options
	now  func() time.Time

	mu     sync.Mutex
	queue  queue
	todo   []Update
	done   map[client.Object]bool // what of todo needs no more writing, by Want
	round  int                    // counts Submits
	busy   map[Key]bool
	guards map[Key]*guard
	wake   chan struct{}
}

// NewWriter makes a Writer; Run brings it to life.
func NewWriter(o Options) *Writer {
	if o.Concurrency <= 0 {
		o.Concurrency = 8
	}
	return &Writer{opts: o, now: time.Now, busy: map[Key]bool{}, guards: map[Key]*guard{}, wake: make(chan struct{}, 1)}
}

// Submit replaces what is still to be written. It never blocks and may be
// called by any goroutine, also while nothing runs: what was submitted last is
// written as soon as Run is called.
func (w *Writer) Submit(updates []Update) {
	w.mu.Lock()
	w.todo, w.done = w.queue.order(updates), map[client.Object]bool{}
	w.round++
	w.mu.Unlock()
	w.signal()
}

func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run writes until ctx ends, and returns when no write is in flight.
func (w *Writer) Run(ctx context.Context) error {
	var writes sync.WaitGroup
	defer writes.Wait()
	slots := make(chan struct{}, w.opts.Concurrency)
	for {
		next := w.pass(ctx, slots, &writes)
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = time.After(next.Sub(w.now()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		case <-timer:
		}
	}
}

// pass starts every write that is due and returns when the next one will be;
// zero: nothing waits. A Submit in between ends the pass: its updates are newer.
func (w *Writer) pass(ctx context.Context, slots chan struct{}, writes *sync.WaitGroup) (next time.Time) {
	w.mu.Lock()
	todo, round := w.todo, w.round
	w.mu.Unlock()
	for _, u := range todo {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return time.Time{}
		}
		start, later, stale := w.claim(u, round)
		if stale {
			<-slots
			w.signal()
			return time.Time{}
		}
		if !later.IsZero() && (next.IsZero() || later.Before(next)) {
			next = later
		}
		if !start {
			<-slots
			continue
		}
		writes.Go(func() {
			defer func() { <-slots }()
			w.write(ctx, u)
		})
	}
	return next
}

// claim decides about one update, and takes it where it may be written now.
func (w *Writer) claim(u Update, round int) (start bool, later time.Time, stale bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := u.Key()
	if w.round != round {
		return false, time.Time{}, true
	}
	if w.busy[key] || w.done[u.Want] {
		return false, time.Time{}, false // the end of the write that runs begins another pass
	}
	g := w.guards[key]
	if g == nil || g.uid != u.Held.GetUID() {
		g = &guard{uid: u.Held.GetUID()}
		w.guards[key] = g
	}
	switch g.judge(u, w.now()) {
	case neverWrite:
		w.done[u.Want] = true
		w.opts.Metrics.count(u.Kind, "pointless")
		if !g.told {
			g.told = true
			w.opts.Logger.Warn("the API server keeps a status otherwise than it was written, so it is left as it is: are the CRDs older than this controller?",
				"kind", u.Kind, "namespace", key.Namespace, "name", key.Name)
		}
		return false, time.Time{}, false
	case outdated:
		w.done[u.Want] = true
		w.opts.Metrics.count(u.Kind, "outdated")
		if g.wants(u) {
			time.AfterFunc(newsTime, w.opts.Again)
		}
		return false, time.Time{}, false
	case writeLater:
		w.opts.Metrics.count(u.Kind, "deferred")
		return false, g.notYet, false
	}
	w.busy[key] = true
	return true, time.Time{}, false
}

// write writes one status and settles what follows from the answer.
func (w *Writer) write(ctx context.Context, u Update) {
	answer := u.Want.DeepCopyObject().(client.Object)
	answer.SetManagedFields(nil) // the cache holds them cut short
	bounded, cancel := context.WithTimeout(ctx, writeTimeout)
	err := w.opts.Client.Update(bounded, answer, client.FieldOwner(FieldOwner))
	cancel()

	w.mu.Lock()
	defer w.mu.Unlock()
	key := u.Key()
	delete(w.busy, key)
	w.queue.written(key)
	g := w.guards[key]
	switch {
	case err == nil:
		w.opts.Metrics.count(u.Kind, "written")
		g.written(u, answer, w.now())
		w.done[u.Want] = true
	case apierrors.IsConflict(err):
		w.opts.Metrics.count(u.Kind, "conflict")
		w.done[u.Want] = true
		time.AfterFunc(conflictRetry, w.opts.Again)
	case apierrors.IsNotFound(err):
		w.opts.Metrics.count(u.Kind, "gone")
		w.done[u.Want] = true
		delete(w.guards, key)
	case ctx.Err() != nil:
	default:
		w.opts.Metrics.count(u.Kind, "failed")
		g.failed(w.now())
		w.opts.Logger.Error("cannot write a status; it is tried again", "kind", u.Kind, "namespace", key.Namespace, "name", key.Name,
			"error", err, "after", g.notYet.Sub(w.now()).Round(time.Millisecond))
	}
	w.forget()
	w.signal()
}

// forget drops guards that have nothing to guard any more.
func (w *Writer) forget() {
	if len(w.guards) < 2*len(w.todo)+1024 {
		return
	}
	for key, g := range w.guards {
		if !w.busy[key] && w.now().Sub(g.last) > forgetAfter {
			delete(w.guards, key)
		}
	}
}
