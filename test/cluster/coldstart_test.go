package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// Models asleep: polls leave them so, a request with work waits and wakes them to
// max(1, minReplicas), and the moment a replica is ready all that wait are served.
func TestColdStart(t *testing.T) {
	const clients = 20
	w := newWorld(t)
	floors := map[string]int32{"sleeper": 0, "sleeper-two": 2}
	for model, floor := range floors {
		w.sleeper(model, v1alpha2.Serverless{MinReplicas: floor}, 0, "--fault="+notReady)
	}
	w.route("inference", "sleeper", "sleeper-two")
	w.routePolls("sleeper")
	g := newTarget(t, w.gateway("inference", 2))
	w.phase("sleeper", v1alpha2.PhaseIdle)

	g.pollsGet(t, http.StatusServiceUnavailable, "model_idle")
	for range 20 {
		g.pollsGet(t, http.StatusServiceUnavailable, "model_idle")
		time.Sleep(100 * time.Millisecond)
	}
	for model := range floors {
		if n, last := w.replicas(model), w.lastActive(model); n != 0 || last != nil {
			t.Fatalf("%s has %d replicas and was active at %v after polls alone", model, n, last)
		}
	}
	for model, floor := range floors {
		replicas := max(1, floor)
		ready := w.watchReadiness(model)
		asked := time.Now()
		q := g.queue(model, clients)
		w.eventuallyReplicas(model, replicas)
		woken := time.Since(asked)
		w.eventuallyWaiting("inference", model, clients)
		eventually(t, func() string {
			// A status has whole seconds.
			if last := w.lastActive(model); last == nil || last.Time.Before(asked.Truncate(time.Second)) {
				return fmt.Sprintf("%s was last active at %v, asked at %v", model, last, asked)
			}
			return ""
		})
		w.phase(model, v1alpha2.PhaseLoading)
		if n := q.answered(); n != 0 {
			t.Errorf("%d answers of %s before a replica was ready", n, model)
		}
		w.fault(w.startedPods(model, replicas)[0], "")
		at := await(t, ready, 1)
		last := q.wait(t)
		t.Logf("%s: %d replicas %v after the first request; %d requests that waited were answered within %v of the replica's readiness, after %d tries",
			model, replicas, woken.Round(time.Millisecond), clients, last.Sub(at).Round(time.Millisecond), q.tries)
		if q.tries != clients {
			t.Errorf("%s: %d tries for %d requests: %v", model, q.tries, clients, q.refused)
		}
		w.eventuallyWaiting("inference", model, 0)
	}
}

// What waits outlives the processes around it: gateway pods and the controller
// are restarted while requests wait, and somebody takes the replicas away. The
// clients' tries go on, and so does the demand.
func TestColdStartOutlivesRestarts(t *testing.T) {
	w := newWorld(t)
	w.sleeper("sleeper", v1alpha2.Serverless{ColdStartTimeout: new(v1alpha2.Duration("10m"))}, 0, "--fault="+notReady)
	w.route("inference", "sleeper")
	g := newTarget(t, w.gateway("inference", 2, func(p *v1alpha2.GatewayParameters) {
		p.Spec.Proxy = &v1alpha2.ProxyParameters{GracefulShutdownTimeout: new(v1alpha2.Duration("4s")), ShutdownDrainDelay: new(v1alpha2.Duration("1s"))}
	}))
	w.phase("sleeper", v1alpha2.PhaseIdle)
	q := g.queue("sleeper", 10)
	w.eventuallyReplicas("sleeper", 1)
	w.eventuallyWaiting("inference", "sleeper", 10)
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"gateway pods restarted", func() { w.restart(w.namespace, w.gatewayDeployment("inference")) }},
		{"gateway pods killed", func() {
			kubectl(t, "-n", w.namespace, "delete", "pods", "--grace-period=0", "--force", "-l", "gateway.networking.k8s.io/gateway-name=inference")
		}},
		{"controller restarted", func() { w.restart(systemNamespace, controllerName) }},
	} {
		step.do()
		// Only demand that is still there brings the replicas back.
		kubectl(t, "-n", w.namespace, "scale", "deployment/sleeper", "--replicas=0")
		taken := time.Now()
		w.eventuallyReplicas("sleeper", 1)
		t.Logf("%s: woken again %v after the replicas were taken away", step.what, time.Since(taken).Round(time.Millisecond))
		w.eventuallyWaiting("inference", "sleeper", 10)
	}
	if n := q.answered(); n != 0 {
		t.Errorf("%d answers before a replica was ready", n)
	}
	ready := w.watchReadiness("sleeper")
	w.fault(w.startedPods("sleeper", 1)[0], "")
	at := await(t, ready, 1)
	last := q.wait(t)
	t.Logf("10 requests answered within %v of readiness, after %d tries; refused meanwhile: %v", last.Sub(at).Round(time.Millisecond), q.tries, q.refused)
}

// A Model goes to sleep an idle time after its last work, whatever polls come,
// never under a stream, and wakes again.
func TestIdle(t *testing.T) {
	const idle = 6 * time.Second
	w := newWorld(t)
	w.sleeper("sleeper", v1alpha2.Serverless{IdleTimeout: new(v1alpha2.Duration(idle.String()))}, 1)
	w.engineReady("sleeper", 1)
	w.route("inference", "sleeper")
	w.routePolls("sleeper")
	g := newTarget(t, w.gateway("inference", 2))
	g.reaches(t, "sleeper")

	polling := make(chan struct{})
	var polls sync.WaitGroup
	polls.Go(func() {
		for {
			select {
			case <-polling:
				return
			case <-time.After(200 * time.Millisecond):
				_, _, _ = g.poll(context.Background()) // whatever comes
			}
		}
	})
	t.Cleanup(polls.Wait)
	defer close(polling)

	// 60 tokens a second: four idle times.
	stream := &load{target: g, models: []string{"sleeper"}, tokens: int(4 * 60 * idle / time.Second)}
	history := w.watchReplicas("sleeper")
	if err := stream.stream("sleeper", "long"); err != nil {
		t.Fatal(err)
	}
	ended := time.Now()
	if at, n, ok := history.below(1); ok {
		t.Fatalf("scaled to %d replicas %v before the stream ended", n, ended.Sub(at))
	}
	for round := range 2 {
		w.eventuallyReplicas("sleeper", 0)
		at, _, ok := history.below(1)
		slept := at.Sub(ended)
		w.phase("sleeper", v1alpha2.PhaseIdle)
		last := w.lastActive("sleeper")
		if last == nil || ended.Sub(last.Time) > 5*time.Second {
			t.Fatalf("last active at %v, the work ended at %v", last, ended)
		}
		// The status has whole seconds, rounded down.
		if awake := at.Sub(last.Time); !ok || awake < idle {
			t.Errorf("asleep %v after it was active, want at least %v", awake, idle)
		}
		g.pollsGet(t, http.StatusServiceUnavailable, "model_idle")

		history = w.watchReplicas("sleeper")
		asked := time.Now()
		a, err := g.ask(t.Context(), "sleeper", "", "Wake up")
		if err != nil || a.status != http.StatusOK {
			t.Fatalf("%d %s %v", a.status, a.body, err)
		}
		ended = time.Now()
		t.Logf("round %d: asleep %v after the last work (idleTimeout %v), then a request that wakes it took %v", round, slept.Round(time.Millisecond), idle, ended.Sub(asked).Round(time.Millisecond))
		history.await(t, 1) // the watch began with 0
		history = w.watchReplicas("sleeper")
	}
}

// sleeper makes a serverless Model. Its engines become ready only when the test
// heals them, where the flags say so.
func (w *world) sleeper(name string, policy v1alpha2.Serverless, replicas int32, flags ...string) {
	w.t.Helper()
	edit := func(m *v1alpha2.Model) { m.Spec.Serverless = &policy }
	w.model(engines{model: name, strategy: v1alpha2.RoutingLeastLoaded, replicas: replicas, flags: flags, edit: edit})
}

// routePolls gives a Model the requests that ask what there is.
func (w *world) routePolls(model string) {
	w.t.Helper()
	change(w, "models", &gwapiv1.HTTPRoute{}, func(r *gwapiv1.HTTPRoute) {
		rule := *r.Spec.Rules[0].DeepCopy()
		rule.Matches = []gwapiv1.HTTPRouteMatch{{Path: &gwapiv1.HTTPPathMatch{Type: new(gwapiv1.PathMatchExact), Value: new("/v1/models")}}}
		rule.BackendRefs[0].Name = gwapiv1.ObjectName(model)
		r.Spec.Rules = append(r.Spec.Rules, rule)
	})
}

// poll asks what there is, and returns status and body.
func (g *target) poll(ctx context.Context) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+"/v1/models", http.NoBody)
	if err != nil {
		return 0, "", err
	}
	response, err := g.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	body, err := readAll(response)
	return response.StatusCode, body, err
}

// pollsGet checks the answer to a poll, once the Gateway knows it.
func (g *target) pollsGet(t *testing.T, status int, text string) {
	t.Helper()
	eventually(t, func() string {
		if got, body, err := g.poll(t.Context()); err != nil || got != status || !strings.Contains(body, text) {
			return fmt.Sprintf("a poll got %d %q %v, want %d %s", got, body, err, status, text)
		}
		return ""
	})
}

// queue is clients that wait for one answer each, and try again where they are
// told to or cut off.
type queue struct {
	target *target
	model  string
	wg     sync.WaitGroup

	mu      sync.Mutex
	tries   int
	last    time.Time // of the last answer
	got     int
	refused map[string]int // what ended the other tries
}

func (g *target) queue(model string, clients int) *queue {
	q := &queue{target: g, model: model, refused: map[string]int{}}
	for n := range clients {
		q.wg.Go(func() { q.run(n) })
	}
	return q
}

func (q *queue) run(n int) {
	for end := time.Now().Add(4 * patience); time.Now().Before(end); {
		ctx, cancel := context.WithDeadline(context.Background(), end)
		response, err := q.target.chat(ctx, q.model, strconv.Itoa(n), "Wake up", 4, false)
		var body string
		if err == nil {
			body, err = readAll(response)
		}
		cancel()
		q.mu.Lock()
		q.tries++
		served := err == nil && response.StatusCode == http.StatusOK
		switch {
		case served:
			q.got++
			q.last = time.Now()
		case err != nil:
			q.refused["connection cut"]++
		default:
			q.refused[fmt.Sprintf("%d, Retry-After %s: %s", response.StatusCode, response.Header.Get("Retry-After"), body)]++
		}
		q.mu.Unlock()
		if served {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (q *queue) answered() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.got
}

// wait waits until all have their answers, and returns when the last one came.
func (q *queue) wait(t *testing.T) time.Time {
	t.Helper()
	q.wg.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.got == 0 || q.last.IsZero() {
		t.Fatalf("%s never answered: %v", q.model, q.refused)
	}
	return q.last
}

// phase waits for a Model's phase.
func (w *world) phase(model string, phase v1alpha2.Phase) {
	w.t.Helper()
	eventually(w.t, func() string {
		var m v1alpha2.Model
		w.get(model, &m)
		if m.Status.Phase != phase {
			return fmt.Sprintf("Model %s is %s, want %s", model, m.Status.Phase, phase)
		}
		return ""
	})
}

func (w *world) lastActive(model string) *metav1.Time {
	w.t.Helper()
	var m v1alpha2.Model
	w.get(model, &m)
	return m.Status.LastActiveTime
}

func (w *world) replicas(deployment string) int32 {
	w.t.Helper()
	var d appsv1.Deployment
	w.get(deployment, &d)
	return *d.Spec.Replicas
}

func (w *world) eventuallyReplicas(deployment string, n int32) {
	w.t.Helper()
	eventually(w.t, func() string {
		if got := w.replicas(deployment); got != n {
			return fmt.Sprintf("Deployment %s has %d replicas, want %d", deployment, got, n)
		}
		return ""
	})
}

// eventuallyWaiting waits until so many requests stand in a Model's queues.
func (w *world) eventuallyWaiting(gateway, model string, n float64) {
	w.t.Helper()
	eventually(w.t, func() string {
		total := 0.0
		for _, pod := range w.gatewayPods(gateway) {
			if ready(&pod) {
				total += sumOf(scrape(w.t, pod.Status.PodIP, adminPort), "flexinfer_proxy_queue_depth", map[string]string{"model": model})
			}
		}
		if total != n {
			return fmt.Sprintf("%v requests wait for %s, want %v", total, model, n)
		}
		return ""
	})
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// startedPods are a Model's pods once so many have started.
func (w *world) startedPods(model string, n int32) (pods []corev1.Pod) {
	w.t.Helper()
	eventually(w.t, func() string {
		if pods = w.pods(map[string]string{"app": model}); len(pods) != int(n) {
			return fmt.Sprintf("%d pods of %s, want %d", len(pods), model, n)
		}
		return ""
	})
	return pods
}

// replicaHistory is what a Deployment's replicas were set to, and when.
type replicaHistory struct {
	mu    sync.Mutex
	times []time.Time
	sizes []int32
}

// watchReplicas notes what a Deployment's replicas are set to from now on.
func (w *world) watchReplicas(deployment string) *replicaHistory {
	w.t.Helper()
	events, err := clients.AppsV1().Deployments(w.namespace).Watch(w.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + deployment})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(events.Stop)
	h := &replicaHistory{}
	go func() {
		for event := range events.ResultChan() {
			if d, ok := event.Object.(*appsv1.Deployment); ok {
				h.mu.Lock()
				h.times, h.sizes = append(h.times, time.Now()), append(h.sizes, *d.Spec.Replicas)
				h.mu.Unlock()
			}
		}
	}()
	return h
}

// below is when there were first fewer than n replicas, and how many.
func (h *replicaHistory) below(n int32) (time.Time, int32, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, size := range h.sizes {
		if size < n {
			return h.times[i], size, true
		}
	}
	return time.Time{}, 0, false
}

// await waits until n replicas were asked for.
func (h *replicaHistory) await(t *testing.T, n int32) {
	t.Helper()
	eventually(t, func() string {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.sizes) == 0 || h.sizes[len(h.sizes)-1] != n {
			return fmt.Sprintf("the replicas were %v, want %d at last", h.sizes, n)
		}
		return ""
	})
}
