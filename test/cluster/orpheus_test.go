package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// The twins of a text-to-speech model, as in the documentation: a fast primary and
// a slower one that stays warm for the times when the primary is away.
const (
	twins    = "orpheus-tts" // the service label that both claim
	primary  = "orpheus-tts-gfx1100"
	fallback = "orpheus-tts-gfx906"
)

// A primary with a route priority that leaves and comes back again and again under
// load: requests follow it, the metrics say why, and nothing fails.
func TestPreferredMember(t *testing.T) {
	w := newWorld(t)
	speed := map[string]string{primary: "--time-scale=0.02", fallback: "--time-scale=0.06"}
	for model, annotations := range map[string]map[string]string{primary: {"flexinfer.ai/route-priority": "100"}, fallback: nil} {
		w.model(engines{model: model, replicas: 1, annotations: annotations, flags: []string{speed[model]}, edit: func(m *v1alpha2.Model) {
			m.Spec.ServiceLabels = []v1alpha2.ServiceLabel{twins}
		}})
	}
	w.route("voices", twins)
	g := newTarget(t, w.gateway("voices", 2))
	g.reaches(t, twins)
	ready := w.watchReadiness(primary)
	await(t, ready, 1)

	counted := w.groupCounts("voices")
	f := &following{target: g, stop: make(chan struct{})}
	for range 8 {
		f.clients.Go(f.work)
	}
	streams := &load{target: g, streamed: twins, streams: 10, tokens: 1000}
	streams.start()
	t.Cleanup(func() { f.end(); streams.clients.Wait() })
	f.more(t, 200)

	// Each way is told when the API server tells it.
	endpoints := func(n int) time.Time { return await(t, ready, n) }
	ways := []struct {
		name string
		set  func(model string, ready bool)
		told func(endpoints int) time.Time
	}{
		{"its readiness probe fails", w.byProbe, endpoints},
		{"it is scaled to 0", w.byScale, endpoints},
		{"its phase is Preempted", w.byPhase, func(int) time.Time { return time.Now() }},
	}
	for range 2 {
		for _, way := range ways {
			way.set(primary, false)
			left := way.told(0)
			f.more(t, 300)
			away := f.settled(t, left, fallback)
			way.set(primary, true)
			came := way.told(1)
			f.more(t, 300)
			t.Logf("%s: the last request to the primary was sent %v after the API server's change; back again, the last to the fallback %v after it (aim: 1s)",
				way.name, away, f.settled(t, came, primary))
		}
	}
	f.end()
	streams.end(t, 0)
	streams.mustHold(t)
	for _, failure := range f.failures {
		t.Error(failure)
	}
	t.Logf("%d requests, %d failed", len(f.seen), len(f.failures))

	// The metrics tell the same story.
	after := w.groupCounts("voices")
	grew := func(key string) float64 { return after[key] - counted[key] }
	if grew("outcome priority_pick") == 0 || grew("outcome fallback_single") == 0 {
		t.Errorf("outcomes %v, before %v: want more of priority_pick and fallback_single", after, counted)
	}
	all := float64(len(f.seen)) + float64(streams.ended.Load())
	if n := grew("outcome priority_pick") + grew("outcome fallback_single"); n < all {
		t.Errorf("%v decisions for %v requests", n, all)
	}
	for _, member := range []string{primary, fallback} {
		if n := grew("member " + member); n < float64(f.count(member)) {
			t.Errorf("the metrics know %v picks of %s, which answered %d requests", n, member, f.count(member))
		}
	}
	t.Logf("metrics: %v", after)
}

// byProbe has the readiness probes of a Model's engines fail, or succeed again.
func (w *world) byProbe(model string, ready bool) {
	w.t.Helper()
	fault := notReady
	if ready {
		fault = ""
	}
	for _, pod := range w.pods(map[string]string{"app": model}) {
		w.fault(pod, fault)
	}
}

// byScale takes a Model's engine away, or brings it back.
func (w *world) byScale(model string, ready bool) {
	w.t.Helper()
	replicas := 0
	if ready {
		replicas = 1
	}
	kubectl(w.t, "-n", w.namespace, "scale", "deployment/"+model, fmt.Sprintf("--replicas=%d", replicas))
}

// byPhase sets a Model's phase as an operator that evicts it would, and withdraws
// it again.
func (w *world) byPhase(model string, ready bool) {
	w.t.Helper()
	phase := `"Preempted"`
	if ready {
		phase = "null"
	}
	kubectl(w.t, "-n", w.namespace, "patch", "model", model, "--subresource=status", "--field-manager=lease", "--type=merge", "-p", `{"status":{"phase":`+phase+`}}`)
}

// groupCounts are the picks of the label group by outcome and by member, in all
// pods of a Gateway.
func (w *world) groupCounts(gateway string) map[string]float64 {
	w.t.Helper()
	counts := map[string]float64{}
	for _, pod := range w.gatewayPods(gateway) {
		families := scrape(w.t, pod.Status.PodIP, adminPort)
		for family, label := range map[string]string{
			"flexinfer_proxy_label_group_route_decisions_total":   "outcome",
			"flexinfer_proxy_label_group_route_target_hits_total": "model",
		} {
			for _, m := range families[family].GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == label && hasLabels(m, map[string]string{"label": twins}) {
						counts[strings.Replace(label, "model", "member", 1)+" "+l.GetValue()] += m.GetCounter().GetValue()
					}
				}
			}
		}
	}
	return counts
}

// following is clients that note which member answered which request.
type following struct {
	target  *target
	stop    chan struct{}
	ending  sync.Once
	clients sync.WaitGroup

	mu       sync.Mutex
	seen     []sighting
	failures []string
}

// sighting is one answered request.
type sighting struct {
	sent   time.Time
	engine string
}

func (s sighting) of(model string) bool { return strings.HasPrefix(s.engine, model+"-") }

func (f *following) work() {
	for {
		select {
		case <-f.stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
		sent := time.Now()
		a, err := f.target.ask(context.Background(), twins, "", "Speak")
		f.mu.Lock()
		if err != nil || a.status != http.StatusOK {
			f.failures = append(f.failures, fmt.Sprintf("%s %d from %q: %s %v", sent.Format("15:04:05.000"), a.status, a.engine, a.body, err))
		} else {
			f.seen = append(f.seen, sighting{sent, a.engine})
		}
		f.mu.Unlock()
	}
}

func (f *following) end() {
	f.ending.Do(func() { close(f.stop) })
	f.clients.Wait()
}

// more waits until that many further requests were answered or failed.
func (f *following) more(t *testing.T, n int) {
	t.Helper()
	total := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.seen) + len(f.failures)
	}
	want := total() + n
	eventually(t, func() string {
		if got := total(); got < want {
			return fmt.Sprintf("%d of %d requests were answered", got, want)
		}
		return ""
	})
}

// settled is how long after a change the last request was sent that another Model
// than the one wanted answered; that one must have answered all of the last 100.
func (f *following) settled(t *testing.T, change time.Time, want string) (lag time.Duration) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	sent := slices.SortedFunc(slices.Values(f.seen), func(a, b sighting) int { return a.sent.Compare(b.sent) })
	for i, s := range sent {
		switch {
		case s.of(want) || s.sent.Before(change):
		case i >= len(sent)-100:
			t.Errorf("%v after the change %s answered, not %s", s.sent.Sub(change), s.engine, want)
		default:
			lag = s.sent.Sub(change)
		}
	}
	return lag.Round(time.Millisecond)
}

// count is how many requests a Model answered.
func (f *following) count(model string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.seen {
		if s.of(model) {
			n++
		}
	}
	return n
}
