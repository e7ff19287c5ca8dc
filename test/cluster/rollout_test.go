package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// loaded is a world with two Models of three engines each behind two gateway
// pods, under load.
type loaded struct {
	*world
	load *load
	name string // of the Gateway
}

func newLoaded(t *testing.T) *loaded {
	t.Helper()
	l := &loaded{world: newWorld(t), name: "inference"}
	fast := []string{"--time-scale=0.02"}
	l.model(engines{model: "session", strategy: v1alpha2.RoutingSessionAffinity, replicas: 3, flags: fast})
	l.model(engines{model: "loaded", strategy: v1alpha2.RoutingLeastLoaded, replicas: 3, flags: fast})
	l.model(engines{model: "stream", strategy: v1alpha2.RoutingSessionAffinity, replicas: 2}) // at the speed of a real one
	l.route(l.name, "session", "loaded", "stream")
	g := newTarget(t, l.gateway(l.name, 2))
	g.reaches(t, "session")
	g.reaches(t, "loaded")
	g.reaches(t, "stream")
	l.load = &load{target: g, models: []string{"session", "loaded"}, streamed: "stream", workers: 24, streams: 50, tokens: 1500, pace: 5 * time.Millisecond}
	l.load.start()
	t.Cleanup(l.load.cease)
	return l
}

// fallbacks is how many requests went to a Model's Service because no replica was
// known, in the gateway pods of now.
func (l *loaded) fallbacks() float64 {
	return sum(l.t, l.gatewayPods(l.name), "flexinfer_proxy_routing_decisions_total", map[string]string{"outcome": "service-fallback"})
}

// rollouts of the engines, the gateway pods and the controller, and a controller
// killed while it starts: no request fails, no stream is cut, and the keys of
// replicas that nobody touched stay where they are.
func TestRollouts(t *testing.T) {
	l := newLoaded(t)

	// A replica that stays keeps its keys: of one that goes, the keys move on.
	before := l.settled("session")
	pods := l.pods(map[string]string{"app": "session"})
	victim := pods[0].Name
	if err := clients.CoreV1().Pods(l.namespace).Delete(t.Context(), victim, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.waitGone(victim)
	l.engineReady("session", 3)
	l.load.more(t, 2000)
	after := l.settled("session")
	moved := 0
	for session, engine := range before {
		switch {
		case engine == victim:
			moved++
		case after[session] != engine && slices.ContainsFunc(pods[1:], func(p corev1.Pod) bool { return p.Name == after[session] }):
			t.Errorf("%s moved from %s to %s, and neither was touched", session, engine, after[session])
		}
	}
	t.Logf("one replica deleted: %d of %d sessions were its own", moved, len(before))

	for _, step := range []struct {
		what string
		do   func()
	}{
		{"engines restarted", func() {
			l.restart(l.namespace, "session")
			l.restart(l.namespace, "loaded")
			l.restart(l.namespace, "stream")
		}},
		{"gateway pods restarted", func() { l.restart(l.namespace, l.gatewayDeployment(l.name)) }},
		{"controller restarted", func() { l.restart(systemNamespace, controllerName) }},
		{"controller killed while it starts", l.killStartingControllers},
	} {
		failed, sent := len(l.load.failed()), l.load.requests.Load()
		step.do()
		l.load.more(t, 500)
		t.Logf("%s: %d requests sent meanwhile, %d failures", step.what, l.load.requests.Load()-sent, len(l.load.failed())-failed)
	}
	l.engineReady("session", 3)
	baseline := l.fallbacks()
	l.load.more(t, 2000)
	if n := l.fallbacks(); n != baseline {
		t.Errorf("%v requests fell back to the Service after everything had settled", n-baseline)
	}
	l.load.end(t, 20_000)
	l.load.mustHold(t)
}

// more waits until that many further requests were sent.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	want := l.requests.Load() + n
	eventually(t, func() string {
		if got := l.requests.Load(); got < want {
			return fmt.Sprintf("%d of %d requests were sent", got, want)
		}
		return ""
	})
}

// settled is where each session of a Model is answered, once every worker has
// had an answer since now.
func (l *loaded) settled(model string) map[string]string {
	l.t.Helper()
	l.load.more(l.t, int64(4*l.load.workers*len(l.load.models)))
	sessions := l.load.sessions()
	for session := range sessions {
		if !strings.HasPrefix(session, model+"/") {
			delete(sessions, session)
		}
	}
	if len(sessions) != l.load.workers {
		l.t.Fatalf("%d sessions of %s, want %d", len(sessions), model, l.load.workers)
	}
	return sessions
}

func (w *world) waitGone(pod string) {
	w.t.Helper()
	eventually(w.t, func() string {
		if _, err := clients.CoreV1().Pods(w.namespace).Get(w.t.Context(), pod, metav1.GetOptions{}); err == nil {
			return "pod " + pod + " is still there"
		}
		return ""
	})
}

// killStartingControllers deletes every pod of the controller, and its successors
// the moment they run.
func (l *loaded) killStartingControllers() {
	selector := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + controllerName}
	pods := clients.CoreV1().Pods(systemNamespace)
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	for range 2 {
		list, err := pods.List(l.t.Context(), selector)
		if err != nil || len(list.Items) == 0 {
			l.t.Fatalf("%d pods of the controller: %v", len(list.Items), err)
		}
		for i := range list.Items {
			_ = pods.Delete(l.t.Context(), list.Items[i].Name, now)
		}
		eventually(l.t, func() string {
			list, err := pods.List(l.t.Context(), selector)
			if err != nil || !slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil }) {
				return fmt.Sprintf("no pod of the controller runs: %v", err)
			}
			return ""
		})
	}
	kubectl(l.t, "-n", systemNamespace, "rollout", "status", "--timeout=120s", "deployment/"+controllerName)
}

// A replica killed at once: what fails is in flight on that very pod and no more,
// and a route that asks for retries saves what had no answer yet.
func TestKilledReplica(t *testing.T) {
	l := newLoaded(t)
	l.load.more(t, 1000)
	killed := map[string]bool{} // each pod once: the kubelet waits before it starts one again and again
	kill := func(model string, replicas int32) (failures int) {
		t.Helper()
		before := len(l.load.failed())
		for _, pod := range l.pods(map[string]string{"app": model}) {
			if !killed[pod.Name] {
				killed[pod.Name] = true
				l.killAndAwait(pod.Name, "enginesim")
				break
			}
		}
		l.load.more(t, 1500)
		l.engineReady(model, replicas)
		return len(l.load.failed()) - before
	}
	inFlight := max(kill("session", 3), kill("session", 3), kill("stream", 2))
	// A stream that is cut looks cut.
	if limit := l.load.workers + l.load.streams; inFlight > limit {
		t.Errorf("%d failures for one killed replica, at most %d can have been on it", inFlight, limit)
	}
	t.Logf("at most %d exchanges failed with a killed replica", inFlight)

	change(l.world, "models", &gwapiv1.HTTPRoute{}, func(r *gwapiv1.HTTPRoute) {
		for i := range r.Spec.Rules {
			r.Spec.Rules[i].Retry = &gwapiv1.HTTPRouteRetry{
				Attempts: new(3), Codes: []gwapiv1.HTTPRouteRetryStatusCode{502, 503, 504}, Backoff: new(gwapiv1.Duration("10ms")),
			}
		}
	})
	l.load.more(t, 500)
	before := len(l.load.failed())
	kill("session", 3)
	kill("stream", 2)
	for _, failure := range l.load.failed()[before:] {
		if !strings.Contains(failure, "was cut after") {
			t.Errorf("with retries: %s", failure)
		}
	}
	t.Logf("with retries: %d failures for two killed replicas, all of them streams that were cut", len(l.load.failed())-before)
	l.load.cease()
}

// The controller gone: serving goes on, and gateway containers that are killed
// meanwhile start with their last good configuration. When it is back, changes
// arrive again.
func TestControllerGone(t *testing.T) {
	l := newLoaded(t)
	l.load.more(t, 1000)
	scale := func(n int) {
		t.Helper()
		kubectl(t, "-n", systemNamespace, "scale", "deployment/"+controllerName, fmt.Sprintf("--replicas=%d", n))
	}
	scale(0)
	back := sync.OnceFunc(func() {
		scale(2)
		kubectl(t, "-n", systemNamespace, "rollout", "status", "--timeout=120s", "deployment/"+controllerName)
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = clients.AppsV1().Deployments(systemNamespace).Patch(ctx, controllerName, "application/merge-patch+json", []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{})
	})
	eventually(t, func() string {
		list, err := clients.CoreV1().Pods(systemNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + controllerName})
		if err != nil || len(list.Items) > 0 {
			return fmt.Sprintf("the controller still runs: %v", err)
		}
		return ""
	})
	l.load.more(t, 2000)
	l.load.cease()
	l.load.mustHold(t)

	for _, pod := range l.gatewayPods(l.name) {
		l.killAndAwait(pod.Name, "gateway")
	}
	if n := len(l.load.failed()); n > 0 {
		t.Fatal("failures before anything was restarted")
	}
	l.load.start()
	l.load.more(t, 2000)
	l.load.end(t, 0)
	l.load.mustHold(t)

	back()
	l.model(engines{model: "late", replicas: 1})
	change(l.world, "models", &gwapiv1.HTTPRoute{}, func(r *gwapiv1.HTTPRoute) {
		late := *r.Spec.Rules[0].DeepCopy()
		late.Matches[0].Headers[0].Value, late.BackendRefs[0].Name = "late", "late"
		r.Spec.Rules = append(r.Spec.Rules, late)
	})
	l.load.target.reaches(t, "late")
}

// killAndAwait kills the program of a pod's container, and waits until the kubelet
// has started it again and it is ready.
func (l *loaded) killAndAwait(pod, program string) {
	l.t.Helper()
	restarts := func() (n int32, ready bool) {
		var p corev1.Pod
		l.get(pod, &p)
		for _, c := range p.Status.ContainerStatuses {
			n, ready = n+c.RestartCount, c.Ready
		}
		return n, ready
	}
	before, _ := restarts()
	killContainer(l.t, l.namespace, pod, program)
	eventually(l.t, func() string {
		if n, ready := restarts(); n <= before || !ready {
			return fmt.Sprintf("pod %s: %d restarts, before %d; ready %v", pod, n, before, ready)
		}
		return ""
	})
}
