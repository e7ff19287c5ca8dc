package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/translate"
)

// store keeps Models as an API server does: an update of an old version is a
// conflict. keep is what it makes of a status.
type store struct {
	mu      sync.Mutex
	models  map[string]*v1alpha2.Model
	keep    func(*v1alpha2.ModelStatus)
	fail    error
	delay   time.Duration
	writes  int
	running int
	most    int // writes at a time
}

func (s *store) Update(ctx context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	s.mu.Lock()
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	time.Sleep(s.delay)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.writes++
	if s.fail != nil {
		return s.fail
	}
	resource := schema.GroupResource{Group: v1alpha2.GroupName, Resource: "models"}
	held := s.models[o.GetName()]
	if held == nil {
		return apierrors.NewNotFound(resource, o.GetName())
	}
	if held.ResourceVersion != o.GetResourceVersion() {
		return apierrors.NewConflict(resource, o.GetName(), errors.New("the object has been modified"))
	}
	s.change(o.GetName(), func(m *v1alpha2.Model) {
		m.Status = *o.(*v1alpha2.Model).Status.DeepCopy()
		if s.keep != nil {
			s.keep(&m.Status)
		}
	})
	s.models[o.GetName()].DeepCopyInto(o.(*v1alpha2.Model))
	return nil
}

// change replaces a Model as any writer does; the caller holds mu.
func (s *store) change(name string, f func(*v1alpha2.Model)) {
	m := s.models[name].DeepCopy()
	f(m)
	n, _ := strconv.Atoi(m.ResourceVersion)
	m.ResourceVersion = strconv.Itoa(n + 1)
	s.models[name] = m
}

func (s *store) get(name string) *v1alpha2.Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.models[name]
}

// count is the number of writes so far.
func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// peak is the largest number of writes at one time so far.
func (s *store) peak() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// all is every Model as it is held.
func (s *store) all() []*v1alpha2.Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.models))
}

func newStore(n int) *store {
	s := &store{models: map[string]*v1alpha2.Model{}}
	for i := range n {
		name := fmt.Sprintf("m%d", i)
		s.models[name] = &v1alpha2.Model{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), Generation: 1, ResourceVersion: "1",
		}}
	}
	return s
}

// want is the update that a translation of the Model as it is held asks for.
func want(held *v1alpha2.Model, status v1alpha2.ModelStatus) []Update {
	result := translate.Result{Models: []translate.ObjectStatus[v1alpha2.ModelStatus]{{
		Name: types.NamespacedName{Namespace: held.Namespace, Name: held.Name}, Generation: held.Generation, Status: status,
	}}}
	return Diff(translate.Resources{Models: []*v1alpha2.Model{held}}, result)
}

func ready(message string, at time.Time) v1alpha2.ModelStatus {
	return v1alpha2.ModelStatus{Phase: v1alpha2.PhaseReady, Conditions: []metav1.Condition{{
		Type: "A", Status: metav1.ConditionTrue, Reason: "R", Message: message, LastTransitionTime: metav1.NewTime(at.Truncate(time.Second)),
	}}}
}

// run runs a Writer in a bubble, with f as the test.
func run(t *testing.T, s *store, again func(), f func(w *Writer)) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWriter(Options{Client: s, Again: again, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Concurrency: 4})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = w.Run(ctx) })
		f(w)
		cancel()
		running.Wait()
	})
}

// Every object is written once, a few at a time; what is as it should be is not.
func TestWriteOnce(t *testing.T) {
	s := newStore(50)
	s.delay = 10 * time.Millisecond
	run(t, s, func() {}, func(w *Writer) {
		var updates []Update
		for _, m := range s.all() {
			updates = append(updates, want(m, ready("x", time.Now()))...)
		}
		w.Submit(updates)
		time.Sleep(time.Minute)
		if s.count() != 50 || s.peak() != 4 {
			t.Errorf("%d writes, %d at a time, want 50, 4", s.count(), s.peak())
		}
		w.Submit(want(s.get("m0"), ready("x", s.get("m0").Status.Conditions[0].LastTransitionTime.Time)))
		time.Sleep(time.Minute)
		if s.count() != 50 {
			t.Errorf("%d writes after nothing changed", s.count())
		}
	})
}

// What was not written when it was replaced is never written.
func TestNewerReplacesOlder(t *testing.T) {
	s := newStore(20)
	s.delay = time.Second
	run(t, s, func() {}, func(w *Writer) {
		var updates []Update
		for _, m := range s.all() {
			updates = append(updates, want(m, ready("old", time.Now()))...)
		}
		w.Submit(updates)
		time.Sleep(500 * time.Millisecond)
		w.Submit(want(s.get("m0"), ready("new", time.Now())))
		time.Sleep(time.Minute)
		old := 0
		for _, m := range s.all() {
			if len(m.Status.Conditions) > 0 && m.Status.Conditions[0].Message == "old" {
				old++
			}
		}
		if old > 4 || s.count() > 6 {
			t.Errorf("%d old statuses in %d writes", old, s.count())
		}
	})
}

// An object that is held as it was before its last write is not written from that,
// which could only conflict. Where something else is to be written by now, a
// translation is asked for soon.
func TestNewsOnTheirWay(t *testing.T) {
	s := newStore(1)
	var asked atomic.Int64
	run(t, s, func() { asked.Add(1) }, func(w *Writer) {
		old := s.get("m0").DeepCopy()
		first := ready("x", time.Now())
		w.Submit(want(old, first))
		time.Sleep(time.Minute)
		w.Submit(want(old, first))
		time.Sleep(time.Minute)
		if s.count() != 1 || asked.Load() != 0 {
			t.Errorf("%d writes and %d translations asked for, want 1 and none", s.count(), asked.Load())
		}
		w.Submit(want(old, ready("y", time.Now())))
		time.Sleep(newsTime)
		synctest.Wait()
		if s.count() != 1 || asked.Load() != 1 {
			t.Errorf("%d writes and %d translations asked for, want 1 and 1", s.count(), asked.Load())
		}
		w.Submit(want(s.get("m0"), ready("y", time.Now())))
		time.Sleep(time.Minute)
		if got := s.get("m0").Status.Conditions[0].Message; got != "y" || s.count() != 2 {
			t.Errorf("message %q after %d writes, want y after 2", got, s.count())
		}
	})
}

// A conflict forces nothing and asks for a translation of the fresh object.
func TestConflict(t *testing.T) {
	s := newStore(1)
	var asked atomic.Int64
	run(t, s, func() { asked.Add(1) }, func(w *Writer) {
		stale := want(s.get("m0"), ready("x", time.Now()))
		s.mu.Lock()
		s.change("m0", func(m *v1alpha2.Model) { m.Status.Phase = v1alpha2.PhaseFailed })
		s.mu.Unlock()
		w.Submit(stale)
		time.Sleep(time.Minute)
		if s.get("m0").Status.Phase != v1alpha2.PhaseFailed || s.count() != 1 || asked.Load() != 1 {
			t.Errorf("phase %s, %d writes, asked %d times", s.get("m0").Status.Phase, s.count(), asked.Load())
		}
		w.Submit(want(s.get("m0"), ready("x", time.Now())))
		time.Sleep(time.Second)
		if s.get("m0").Status.Phase != v1alpha2.PhaseReady {
			t.Error("the fresh object was not written")
		}
	})
}

// An object that has gone is no concern; a refusal is tried again, ever less often.
func TestFailures(t *testing.T) {
	s := newStore(1)
	run(t, s, func() {}, func(w *Writer) {
		gone := s.get("m0").DeepCopy()
		gone.Name = "gone"
		w.Submit(want(gone, ready("x", time.Now())))
		time.Sleep(time.Hour)
		if n := s.count(); n != 1 {
			t.Errorf("%d writes to what is gone", n)
		}
		s.mu.Lock()
		s.fail, s.writes = apierrors.NewInternalError(errors.New("down")), 0
		s.mu.Unlock()
		w.Submit(want(s.get("m0"), ready("x", time.Now())))
		time.Sleep(time.Hour)
		if n := s.count(); n < 10 || n > 25 {
			t.Errorf("%d tries in an hour", n)
		}
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		time.Sleep(longestBackoff)
		if s.get("m0").Status.Phase != v1alpha2.PhaseReady {
			t.Error("not written once the API server took it")
		}
	})
}

// The controller translates after every change; none of these becomes a loop.
func TestNoLoop(t *testing.T) {
	f := func(name string, keep func(*v1alpha2.ModelStatus), message func(i int) string, most int) {
		t.Run(name, func(t *testing.T) {
			s := newStore(1)
			s.keep = keep
			run(t, s, func() {}, func(w *Writer) {
				for i := range 6000 { // ten minutes
					w.Submit(want(s.get("m0"), ready(message(i), time.Now())))
					time.Sleep(100 * time.Millisecond)
				}
			})
			if s.count() < 1 || s.count() > most {
				t.Errorf("%d writes in ten minutes, want at most %d", s.count(), most)
			}
		})
	}
	same := func(int) string { return "x" }
	f("a field is dropped", func(m *v1alpha2.ModelStatus) { m.Conditions = nil }, same, 1)
	f("the input flaps", nil, func(i int) string { return strconv.Itoa(i) }, 620)
	f("a fight", nil, same, 1)

	s := newStore(1)
	run(t, s, func() {}, func(w *Writer) {
		for range 6000 {
			w.Submit(want(s.get("m0"), ready("ours", time.Now())))
			time.Sleep(50 * time.Millisecond)
			s.mu.Lock()
			if s.models["m0"].Status.Phase != v1alpha2.PhaseFailed {
				s.change("m0", func(m *v1alpha2.Model) { m.Status = v1alpha2.ModelStatus{Phase: v1alpha2.PhaseFailed} })
			}
			s.mu.Unlock()
			time.Sleep(50 * time.Millisecond)
		}
	})
	if s.count() < 5 || s.count() > 20 {
		t.Errorf("%d writes in ten minutes against somebody who changes them back", s.count())
	}
}

// Diff finds what differs in meaning, and nothing of an older generation.
func TestDiff(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	parent := gwapiv1.RouteParentStatus{
		ParentRef: gwapiv1.ParentReference{Name: "gw"}, ControllerName: "a/b",
		Conditions: []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionTrue, LastTransitionTime: at}},
	}
	route := func(generation int64, parents ...gwapiv1.RouteParentStatus) *gwapiv1.HTTPRoute {
		r := &gwapiv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", Generation: generation}}
		r.Status.Parents = parents
		return r
	}
	f := func(name string, held *gwapiv1.HTTPRoute, differs bool, parents ...gwapiv1.RouteParentStatus) {
		t.Helper()
		result := translate.Result{HTTPRoutes: []translate.ObjectStatus[gwapiv1.HTTPRouteStatus]{{
			Name: types.NamespacedName{Namespace: "ns", Name: "r"}, Generation: 2,
		}}}
		result.HTTPRoutes[0].Status.Parents = parents
		updates := Diff(translate.Resources{HTTPRoutes: []*gwapiv1.HTTPRoute{held}}, result)
		if (len(updates) == 1) != differs {
			t.Errorf("%s: %d updates, want one: %v", name, len(updates), differs)
		}
		if len(updates) == 1 && (len(updates[0].Want.(*gwapiv1.HTTPRoute).Status.Parents) != len(parents) || updates[0].Held != client.Object(held)) {
			t.Errorf("%s: update %+v", name, updates[0])
		}
	}
	other := *parent.DeepCopy()
	other.ParentRef.SectionName = new(gwapiv1.SectionName("x"))
	utc := *parent.DeepCopy()
	utc.Conditions[0].LastTransitionTime = metav1.NewTime(at.UTC())
	message := *parent.DeepCopy()
	message.Conditions[0].Message = "x"
	f("equal", route(2, parent), false, parent)
	f("another time zone", route(2, parent), false, utc)
	f("empty and absent", route(2), false, []gwapiv1.RouteParentStatus{}...)
	f("new", route(2), true, parent)
	f("gone", route(2, parent), true)
	f("another section", route(2, parent), true, other)
	f("another message", route(2, parent), true, message)
	f("an older generation", route(1), false, parent)
}
