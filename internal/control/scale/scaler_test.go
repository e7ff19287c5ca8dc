package scale

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

var deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}

// stand is a Scaler in a bubble of time, on an API server in memory that keeps
// the scale of every target as a real one does.
type stand struct {
	*testing.T
	s      *Scaler
	client client.WithWatch
	events eventLog
	models []string

	mu       sync.Mutex
	replicas map[string]int64 // by name of the target; absent: not found
	version  int
	get      func(ctx context.Context, name string) error // before a read
	update   func(name string) error                      // before a write
	writes   int
}

// onStand runs f in a bubble, with Models of the given names whose targets are
// Deployments of the same names, at 0.
func onStand(t *testing.T, idle time.Duration, names []string, f func(*stand)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := &stand{T: t, models: names, replicas: map[string]int64{}}
		scheme := runtime.NewScheme()
		if err := v1alpha2.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		w := World{Pods: map[string][]string{gw: {"a"}}}
		build := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha2.Model{})
		for _, name := range names {
			st.replicas[name] = 0
			build.WithObjects(&v1alpha2.Model{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 1}})
			w.Models = append(w.Models, Model{
				Key: "ns/" + name, IdleTimeout: idle, Gateways: []string{gw}, Generation: 1,
				Target: Target{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "ns", Name: name},
			})
		}
		st.client = build.WithInterceptorFuncs(interceptor.Funcs{SubResourceGet: st.read, SubResourceUpdate: st.write}).Build()
		st.s = NewScaler(Options{Client: st.client, Models: st.client, Recorder: &st.events, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { st.s.Run(ctx) })
		defer running.Wait()
		defer cancel()
		st.s.SetWorld(w)
		f(st)
	})
}

func (st *stand) read(ctx context.Context, _ client.Client, _ string, target, scale client.Object, _ ...client.SubResourceGetOption) error {
	st.mu.Lock()
	hook := st.get
	st.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, target.GetName()); err != nil {
			return err
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	n, ok := st.replicas[target.GetName()]
	if !ok {
		return apierrors.NewNotFound(deployments, target.GetName())
	}
	scale.SetResourceVersion(fmt.Sprint(st.version))
	return unstructured.SetNestedField(scale.(*unstructured.Unstructured).Object, n, "spec", "replicas")
}

func (st *stand) write(_ context.Context, _ client.Client, _ string, target client.Object, opts ...client.SubResourceUpdateOption) error {
	var o client.SubResourceUpdateOptions
	o.ApplyOptions(opts)
	st.mu.Lock()
	hook := st.update
	st.mu.Unlock()
	if hook != nil {
		if err := hook(target.GetName()); err != nil {
			return err
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if o.SubResourceBody.GetResourceVersion() != fmt.Sprint(st.version) {
		return apierrors.NewConflict(deployments, target.GetName(), errors.New("modified"))
	}
	n, _, err := unstructured.NestedInt64(o.SubResourceBody.(*unstructured.Unstructured).Object, "spec", "replicas")
	st.replicas[target.GetName()] = n
	st.version++
	st.writes++
	return err
}

func (st *stand) hooks(get func(context.Context, string) error, update func(string) error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.get, st.update = get, update
}

// set is somebody else's write.
func (st *stand) set(name string, n int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.replicas[name] = n
	st.version++
}

func (st *stand) want(name string, n int64) {
	st.Helper()
	synctest.Wait()
	st.mu.Lock()
	defer st.mu.Unlock()
	if got := st.replicas[name]; got != n {
		st.Fatalf("%s has %d replicas, want %d", name, got, n)
	}
}

func (st *stand) report(waiting, running int, names ...string) {
	var d []Demand
	for _, name := range names {
		d = append(d, Demand{Model: "ns/" + name, Waiting: waiting, Running: running, LastActive: time.Now()})
	}
	st.s.Report(gw, "a", d)
	synctest.Wait()
}

func (st *stand) condition(name string) metav1.Condition {
	st.Helper()
	var m v1alpha2.Model
	if err := st.client.Get(st.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &m); err != nil {
		st.Fatal(err)
	}
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha2.ConditionScaleTargetReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// TestScalerSurvivesPanicsAndErrors: both are failures that are tried again, and
// other Models do not feel them.
func TestScalerSurvivesPanicsAndErrors(t *testing.T) {
	onStand(t, 0, []string{"chat", "other"}, func(st *stand) {
		st.hooks(func(_ context.Context, name string) error {
			if name == "chat" {
				panic("in the client")
			}
			return nil
		}, nil)
		st.report(1, 0, "chat", "other")
		st.want("chat", 0)
		st.want("other", 1)
		st.hooks(nil, func(string) error { return errors.New("the API server is away") })
		time.Sleep(1500 * time.Millisecond)
		st.want("chat", 0)
		if c := st.condition("chat"); c.Reason != v1alpha2.ReasonScaleFailed || !strings.Contains(c.Message, "the API server is away") {
			t.Errorf("%+v", c)
		}
		st.hooks(nil, nil)
		time.Sleep(5 * time.Second)
		st.want("chat", 1)
		if c := st.condition("chat"); c.Status != metav1.ConditionTrue {
			t.Errorf("%+v", c)
		}
	})
}

// TestScalerYieldsToOthersWrites: a conflict is looked at anew, and a number that
// somebody else has chosen stays.
func TestScalerYieldsToOthersWrites(t *testing.T) {
	onStand(t, 0, []string{"chat"}, func(st *stand) {
		first := true
		st.hooks(nil, func(string) error {
			if first {
				first = false
				st.set("chat", 5)
			}
			return nil
		})
		st.report(1, 0, "chat")
		time.Sleep(time.Second)
		st.want("chat", 5)
	})
}

// TestScalerYieldsToARequest: a request that comes between the decision to put
// its Model to sleep and the write keeps it awake.
func TestScalerYieldsToARequest(t *testing.T) {
	onStand(t, 30*time.Second, []string{"chat"}, func(st *stand) {
		st.s.SetLeader(true)
		st.set("chat", 2)
		st.report(0, 0)
		time.Sleep(29 * time.Second)
		arrived := false
		st.hooks(func(context.Context, string) error {
			if !arrived {
				arrived = true
				st.s.Report(gw, "a", []Demand{{Model: "ns/chat", Running: 1, LastActive: time.Now()}})
			}
			return nil
		}, nil)
		time.Sleep(2 * time.Second)
		st.want("chat", 2)
		if !arrived || st.writes != 0 {
			t.Errorf("arrived %v, %d writes", arrived, st.writes)
		}
		st.report(0, 0)
		time.Sleep(31 * time.Second)
		st.want("chat", 0)
	})
}

// TestScalerPutsWhoWaitsFirst: a Model that somebody waits for does not stand
// behind those that are only looked at, however slow these are.
func TestScalerPutsWhoWaitsFirst(t *testing.T) {
	names := []string{"last"}
	for i := range 100 {
		names = append(names, fmt.Sprintf("m%d", i))
	}
	onStand(t, time.Hour, names, func(st *stand) {
		st.hooks(func(ctx context.Context, name string) error {
			if name == "last" {
				return nil
			}
			select {
			case <-time.After(10 * time.Second):
			case <-ctx.Done():
			}
			return ctx.Err()
		}, nil)
		st.s.SetLeader(true)
		time.Sleep(15 * time.Second)
		st.report(1, 0, "last")
		st.want("last", 1)
		time.Sleep(5 * time.Minute)
		for _, name := range st.models { // and everybody had his turn
			if st.condition(name).Status != metav1.ConditionTrue {
				t.Errorf("%s has never been looked at", name)
			}
		}
	})
}

// TestScalerWithoutLeading: only the leader looks at Models that nobody wants,
// and puts them to sleep.
func TestScalerWithoutLeading(t *testing.T) {
	onStand(t, time.Second, []string{"chat"}, func(st *stand) {
		st.report(1, 0, "chat")
		st.want("chat", 1)
		st.report(0, 0)
		time.Sleep(time.Minute)
		st.want("chat", 1)
		st.s.SetLeader(true)
		time.Sleep(time.Minute)
		st.want("chat", 0)
		st.s.SetLeader(false)
		st.s.Lost(gw, "a")
		st.report(1, 0, "chat")
		st.want("chat", 1)
	})
}

// TestScalerEndsWhileACallHangs: Run returns when the call has been given up.
func TestScalerEndsWhileACallHangs(t *testing.T) {
	onStand(t, 0, []string{"chat"}, func(st *stand) {
		st.hooks(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }, nil)
		st.report(1, 0, "chat")
		time.Sleep(time.Second)
	}) // the bubble ends only when Run has
}

func TestExplain(t *testing.T) {
	target := Target{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "ns", Name: "chat"}
	custom := Target{APIVersion: "example.com/v1", Kind: "Engine", Namespace: "ns", Name: "chat"}
	f := func(target Target, err error, reason string, parts ...string) {
		t.Helper()
		got, message := target.explain(err)
		if got != reason {
			t.Errorf("%v: %s, want %s", err, got, reason)
		}
		for _, part := range parts {
			if !strings.Contains(message, part) {
				t.Errorf("%v: %q lacks %q", err, message, part)
			}
		}
		if len(message) > 2*maxCause {
			t.Errorf("a message of %d bytes", len(message))
		}
	}
	f(target, apierrors.NewNotFound(deployments, "chat"), v1alpha2.ReasonTargetNotFound, "create it")
	f(custom, apierrors.NewNotFound(schema.GroupResource{Group: "example.com", Resource: "engines"}, "chat"), v1alpha2.ReasonTargetNotFound, "or its kind")
	f(target, apierrors.NewGenericServerResponse(404, "get", deployments, "", "", 0, true), v1alpha2.ReasonNotScalable, "no scale subresource")
	f(target, apierrors.NewForbidden(deployments, "chat", errors.New("no")), v1alpha2.ReasonNotPermitted, "grant")
	f(target, errors.New(strings.Repeat("ä", 4000)), v1alpha2.ReasonScaleFailed, "tried again")
	for _, odd := range []Target{{APIVersion: "a/b/c", Kind: "X"}, {APIVersion: "", Kind: "X"}, {APIVersion: "v1"}} {
		_, err := odd.object()
		f(odd, err, v1alpha2.ReasonTargetNotFound, "correct spec.scaleTargetRef")
	}
}
