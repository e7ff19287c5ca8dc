package scale

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"flexinfer.ai/gateway/internal/control/status"
	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/translate"
)

var onCluster = flag.Bool("on-cluster", false, "test against the cluster of KUBECONFIG, which must know Models: the API server's own scale subresources and field ownership")

// realm is a namespace of a real cluster, and a Scaler that works in it as a
// gateway's demand asks.
type realm struct {
	*testing.T
	api       *rest.Config
	client    client.Client
	namespace string
	scaler    *Scaler
	world     World
	events    *eventLog
}

// eventLog is a Recorder that keeps the reasons.
type eventLog struct {
	mu   sync.Mutex
	told []string
}

func (l *eventLog) Event(about runtime.Object, kind, reason, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, fmt.Sprintf("%s %s %s: %s", about.(*corev1.ObjectReference).Name, kind, reason, message))
}

func (l *eventLog) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.told, "\n")
}

func newRealm(t *testing.T) *realm {
	t.Helper()
	if !*onCluster {
		t.Skip("needs a cluster: see -on-cluster")
	}
	api, err := config.GetConfig()
	if err != nil {
		t.Fatal(err)
	}
	api.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	r := &realm{T: t, api: api, events: &eventLog{}}
	if r.client, err = client.New(api, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "scale-test-"}}
	r.must(r.client.Create(t.Context(), namespace))
	r.namespace = namespace.Name
	t.Cleanup(func() { _ = r.client.Delete(context.Background(), namespace) })
	r.run(r.client)
	return r
}

// run replaces the Scaler by one that has the given client.
func (r *realm) run(c client.Client) {
	timing := DefaultTiming()
	timing.Touch, timing.BackoffMax = time.Second, 2*time.Second
	s := NewScaler(Options{Client: c, Models: r.client, Recorder: r.events, Logger: slog.New(slog.DiscardHandler), Timing: timing})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	r.Cleanup(func() { cancel(); <-done })
	s.SetLeader(true)
	r.scaler, r.world = s, World{Pods: map[string][]string{gw: {"a"}}}
}

func (r *realm) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// eventually waits for the truth of something on a cluster.
func (r *realm) eventually(what string, f func() bool) {
	r.Helper()
	for end := time.Now().Add(60 * time.Second); !f(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("never: %s; events:\n%s", what, r.events.all())
		}
	}
}

// model creates a Model that is scaled through the target, and shows it to the
// Scaler.
func (r *realm) model(name string, idle time.Duration, target *v1alpha2.ScaleTargetReference) *v1alpha2.Model {
	r.Helper()
	m := &v1alpha2.Model{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec: v1alpha2.ModelSpec{
			Backend: "vllm", Source: "HF://some/model", Serverless: &v1alpha2.Serverless{}, ScaleTargetRef: target,
		},
	}
	r.must(r.client.Create(r.Context(), m))
	t := m.ScaleTarget()
	r.world.Models = append(r.world.Models, Model{
		Key: r.namespace + "/" + name, IdleTimeout: idle, Gateways: []string{gw}, Generation: m.Generation,
		Target: Target{APIVersion: t.APIVersion, Kind: t.Kind, Namespace: r.namespace, Name: t.Name},
	})
	r.scaler.SetWorld(r.world)
	return m
}

func (r *realm) report(name string, waiting, running int) {
	var d []Demand
	if waiting+running > 0 {
		d = []Demand{{Model: r.namespace + "/" + name, Waiting: waiting, Running: running, LastActive: time.Now()}}
	}
	r.scaler.Report(gw, "a", d)
}

func (r *realm) get(name string) *v1alpha2.Model {
	r.Helper()
	var m v1alpha2.Model
	r.must(r.client.Get(r.Context(), client.ObjectKey{Namespace: r.namespace, Name: name}, &m))
	return &m
}

func (r *realm) condition(name string) metav1.Condition {
	r.Helper()
	if c := meta.FindStatusCondition(r.get(name).Status.Conditions, v1alpha2.ConditionScaleTargetReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func (r *realm) deployment(name string, replicas int32) {
	r.Helper()
	labels := map[string]string{"app": name}
	r.must(r.client.Create(r.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64),
					Containers:                    []corev1.Container{{Name: "pause", Image: "registry.k8s.io/pause:3.10"}},
				},
			},
		},
	}))
}

func (r *realm) replicas(name string) (asked, there int32) {
	r.Helper()
	var d appsv1.Deployment
	r.must(r.client.Get(r.Context(), client.ObjectKey{Namespace: r.namespace, Name: name}, &d))
	return *d.Spec.Replicas, d.Status.ReadyReplicas
}

// TestClusterDeployment: a Deployment from 0 to 1, kept while an exchange runs,
// and down to 0 when nothing has run for the idle time.
func TestClusterDeployment(t *testing.T) {
	r := newRealm(t)
	r.deployment("chat", 0)
	r.model("chat", 3*time.Second, nil) // too short: it is 5
	r.report("chat", 2, 0)
	begun := time.Now()
	r.eventually("the Deployment asks for one", func() bool { asked, _ := r.replicas("chat"); return asked == 1 })
	t.Logf("scaled up after %s", time.Since(begun).Round(time.Millisecond))
	r.eventually("a pod is ready", func() bool { _, there := r.replicas("chat"); return there == 1 })
	t.Logf("a pod was ready after %s", time.Since(begun).Round(time.Millisecond))
	r.report("chat", 0, 1)
	r.eventually("the Model tells its activity and its target", func() bool {
		m := r.get("chat")
		return m.Status.LastActiveTime != nil && r.condition("chat").Status == metav1.ConditionTrue
	})
	time.Sleep(7 * time.Second) // longer than the idle time
	if asked, _ := r.replicas("chat"); asked != 1 {
		t.Fatalf("scaled to %d under a running exchange", asked)
	}
	if at := r.get("chat").Status.LastActiveTime.Time; time.Since(at) > 4*time.Second {
		t.Errorf("the last activity is told as %s ago while an exchange runs", time.Since(at))
	}
	r.report("chat", 0, 0)
	ended := time.Now()
	r.eventually("the Deployment asks for none", func() bool { asked, _ := r.replicas("chat"); return asked == 0 })
	if took := time.Since(ended); took < 5*time.Second {
		t.Errorf("put to sleep %s after the last request", took)
	}
	r.report("chat", 1, 0) // the second cold start works like the first
	r.eventually("the Deployment asks for one again", func() bool { asked, _ := r.replicas("chat"); return asked == 1 })
	for _, want := range []string{"Normal Woken: Scaled Deployment chat from 0 to 1: 2 requests wait", "Normal ScaledDown: Scaled Deployment chat from 1 to 0: no request for 5s"} {
		if !strings.Contains(r.events.all(), want) {
			t.Errorf("no event %q in:\n%s", want, r.events.all())
		}
	}
}

// widgets are kinds of the test's own, with a scale subresource and without.
func (r *realm) kind(name, scalePath string) schema.GroupVersionKind {
	r.Helper()
	group := strings.ReplaceAll(r.namespace, "-", "") + ".example.com"
	plural := strings.ToLower(name) + "s"
	version := map[string]any{
		"name": "v1", "served": true, "storage": true,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
			"spec":   map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			"status": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		}}},
	}
	if scalePath != "" {
		version["subresources"] = map[string]any{"scale": map[string]any{"specReplicasPath": scalePath, "statusReplicasPath": ".status.replicas"}}
	}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "versions": []any{version},
			"names": map[string]any{"plural": plural, "singular": strings.ToLower(name), "kind": name, "listKind": name + "List"},
		},
	}}
	r.must(r.client.Create(r.Context(), crd))
	r.Cleanup(func() { _ = r.client.Delete(context.Background(), crd) })
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}
}

func (r *realm) object(gvk schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
	r.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(gvk)
	o.SetNamespace(r.namespace)
	o.SetName(name)
	r.eventually("the kind "+gvk.Kind+" is served", func() bool { return r.client.Create(r.Context(), o) == nil })
	return o
}

// TestClusterAnyKind: whatever has a scale subresource is scaled through it, and
// what cannot be scaled is explained on the Model.
func TestClusterAnyKind(t *testing.T) {
	r := newRealm(t)
	engine, lump := r.kind("Engine", ".spec.workers.count"), r.kind("Lump", "")
	r.object(engine, "fleet", map[string]any{"workers": map[string]any{"count": int64(0)}})
	r.object(lump, "stone", map[string]any{})
	target := func(gvk schema.GroupVersionKind, name string) *v1alpha2.ScaleTargetReference {
		return &v1alpha2.ScaleTargetReference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: name}
	}
	r.model("scaled", 0, target(engine, "fleet"))
	r.world.Models[0].MinReplicas = 3
	r.model("absent", 0, nil)
	r.model("stone", 0, target(lump, "stone"))
	r.model("job", 0, &v1alpha2.ScaleTargetReference{APIVersion: "batch/v1", Kind: "Job", Name: "x"})
	r.model("unknown", 0, &v1alpha2.ScaleTargetReference{APIVersion: "nowhere.example.com/v1", Kind: "Nothing", Name: "x"})
	var demand []Demand
	for _, m := range r.world.Models {
		demand = append(demand, Demand{Model: m.Key, Waiting: 1, LastActive: time.Now()})
	}
	r.scaler.Report(gw, "a", demand)
	r.eventually("the own kind is scaled", func() bool {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(engine)
		r.must(r.client.Get(t.Context(), client.ObjectKey{Namespace: r.namespace, Name: "fleet"}, o))
		n, _, _ := unstructured.NestedInt64(o.Object, "spec", "workers", "count")
		return n == 3
	})
	f := func(name, reason, part string) {
		t.Helper()
		r.eventually("Model "+name+" tells "+reason, func() bool { return r.condition(name).Reason == reason })
		c := r.condition(name)
		if c.Status == metav1.ConditionTrue != (reason == v1alpha2.ReasonScalable) || !strings.Contains(c.Message, part) || c.ObservedGeneration != 1 {
			t.Errorf("%s: %+v, want %q in its message", name, c, part)
		}
	}
	f("scaled", v1alpha2.ReasonScalable, "Engine fleet")
	f("absent", v1alpha2.ReasonTargetNotFound, "there is no Deployment absent in the namespace: create it")
	f("stone", v1alpha2.ReasonTargetNotFound, "or its kind has no scale subresource")
	f("job", v1alpha2.ReasonNotScalable, "no scale subresource")
	f("unknown", v1alpha2.ReasonTargetNotFound, "knows no kind Nothing")
	// A target that comes later mends it.
	r.deployment("absent", 0)
	f("absent", v1alpha2.ReasonScalable, "Deployment absent")
	// That it can be scaled may be known before it is.
	r.eventually("the late target has 1 replica", func() bool { asked, _ := r.replicas("absent"); return asked == 1 })
	if n := strings.Count(r.events.all(), "absent Warning TargetNotFound"); n != 1 {
		t.Errorf("told %d times of the absent target:\n%s", n, r.events.all())
	}
}

// TestClusterNotPermitted: a controller without the right to scale a kind says
// which right it lacks.
func TestClusterNotPermitted(t *testing.T) {
	r := newRealm(t)
	r.deployment("chat", 0)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "some"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha2.GroupName}, Resources: []string{"models/status"}, Verbs: []string{"patch"}},
	}}
	r.must(r.client.Create(t.Context(), role))
	r.must(r.client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "some"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "some"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "some"}},
	}))
	restricted := rest.CopyConfig(r.api)
	restricted.Impersonate.UserName = "some"
	c, err := client.New(restricted, client.Options{Scheme: r.client.Scheme()})
	r.must(err)
	r.run(c)
	r.model("chat", 0, nil)
	r.report("chat", 1, 0)
	r.eventually("the Model tells what is not permitted", func() bool { return r.condition("chat").Reason == v1alpha2.ReasonNotPermitted })
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments/scale"}, Verbs: []string{"get", "update"}})
	r.must(r.client.Update(t.Context(), role))
	// These are all the rights that it takes.
	r.eventually("the Model wakes once it is", func() bool { return r.condition("chat").Status == metav1.ConditionTrue })
	r.eventually("the activity is told", func() bool { return r.get("chat").Status.LastActiveTime != nil })
}

// TestClusterStatusHasTwoWriters: the status writer's own conditions and the
// Scaler's stand side by side, however both write.
func TestClusterStatusHasTwoWriters(t *testing.T) {
	r := newRealm(t)
	r.deployment("chat", 1)
	r.model("chat", 0, nil)
	var updates []status.Update
	writer := status.NewWriter(status.Options{Client: r.client.Status(), Again: func() {}, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() { _ = writer.Run(ctx) })
	defer writing.Wait()
	defer cancel()
	round := 0
	write := func() {
		held := r.get("chat")
		want := translate.Translate(translate.Resources{Models: []*v1alpha2.Model{held}}, translate.Options{
			Now: metav1.Now(), FieldManager: status.FieldOwner,
			// A status that changes with each round.
		})
		want.Models[0].Status.TotalEndpoints = int32(round)
		updates = status.Diff(translate.Resources{Models: []*v1alpha2.Model{held}}, want)
		writer.Submit(updates)
	}
	for ; round < 20; round++ {
		write()
		r.report("chat", 0, round%2)
		time.Sleep(300 * time.Millisecond)
	}
	r.report("chat", 0, 0)
	r.eventually("both have written last", func() bool {
		m := r.get("chat")
		if m.Status.TotalEndpoints != int32(round) {
			write()
			return false
		}
		return m.Status.LastActiveTime != nil && time.Since(m.Status.LastActiveTime.Time) < 30*time.Second
	})
	m := r.get("chat")
	var kinds []string
	for _, c := range m.Status.Conditions {
		kinds = append(kinds, c.Type)
	}
	for _, want := range []string{v1alpha2.ConditionScaleTargetReady, v1alpha2.ConditionResolvedRefs, v1alpha2.ConditionRoutingValid, v1alpha2.ConditionNamesValid} {
		if n := strings.Count(strings.Join(kinds, " "), want); n != 1 {
			t.Errorf("%d conditions %s in %v", n, want, kinds)
		}
	}
	for _, entry := range m.ManagedFields {
		if entry.Manager != status.FieldOwner && v1alpha2.ManagesPhase(entry) {
			t.Errorf("%s owns the phase", entry.Manager)
		}
	}
}
