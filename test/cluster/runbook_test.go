package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// The runbook of docs/troubleshooting.md on a world that is well, and on the same
// world when something is wrong with it: each section says so.
func TestRunbook(t *testing.T) {
	w := newWorld(t)
	claim := func(m *v1alpha2.Model) { m.Spec.ServiceLabels = []v1alpha2.ServiceLabel{"team-chat"} }
	flags := []string{"--time-scale=0.02"}
	w.model(engines{
		model: "chat", strategy: v1alpha2.RoutingPrefix, replicas: 2, flags: flags, edit: claim,
		annotations: map[string]string{"flexinfer.ai/route-priority": "10"},
	})
	w.model(engines{model: "spare", replicas: 1, flags: flags, edit: claim})
	w.sleeper("sleeper", v1alpha2.Serverless{}, 0, "--fault="+notReady)
	w.route("inference", "chat", "team-chat", "sleeper")
	g := newTarget(t, w.gateway("inference", 2, func(p *v1alpha2.GatewayParameters) {
		p.Spec.Proxy = &v1alpha2.ProxyParameters{Log: &v1alpha2.LogParameters{Level: new("debug")}}
	}))
	g.reaches(t, "chat")
	r := &runbook{world: w, script: findRunbook(t)}
	traffic := newTraffic(g)
	t.Cleanup(traffic.end)

	t.Run("nothing is wrong", func(t *testing.T) {
		r.eventually(t, 0, "chat").says(t,
			`NAME +STRATEGY +READY +PHASE +AGE`, `chat +prefix +2/2 +Ready +\S+`, `annotations: routing=prefix route-priority=10`,
			`chat-\S+ +IPv4 +8000 `, `[0-9.]+ ready=true serving=true terminating=false chat-`,
			`[1-9]\d* pod`, `[1-9]\d* canonical`, `[1-9]\d* [0-9.]+:8000`, `fallback ratio: 0.000`, `routing to pod.*canonical`,
			`0 added`, `successfully rolled out`, `2 inference-\S+`,
			`requests without any key +0 of [1-9]`, `chat +\[team-chat\] +10 +2/2 +Ready`, `[1-9]\d* priority_pick`, `[1-9]\d* chat`,
			`has no spec.serverless`, `inference +flexinfer +[0-9.]+ +True`, `HTTPRoute \S+/models: Accepted=True ResolvedRefs=True`, `nothing found`)
		r.run(t, 0, "sleeper", "baseline", "coldstart").says(t, `sleeper +least-loaded +0/0 +Idle`, `phase Idle, last active *\n`, `sleeper +0/0`, `nothing found`)
	})
	t.Run("engines restart", func(t *testing.T) {
		r.eventually(t, 0, "chat", "churn", "--restart").says(t, `restarted`, `fallback ratio before 0.000, during 0.\d+, after 0.000`, `nothing found`)
	})
	t.Run("a replica is not ready", func(t *testing.T) {
		w.engineReady("chat", 2)
		pod := w.pods(map[string]string{"app": "chat"})[0]
		w.fault(pod, notReady)
		w.engineReady("chat", 1)
		r.run(t, 1, "chat", "baseline", "triage", "symptoms").says(t,
			`! +1 of 2 replicas are ready`, `ready=false`, `! +pod `+pod.Name+` is not ready`, `Unhealthy`, `1 inference-\S+`)
		w.fault(pod, "")
		w.engineReady("chat", 2)
	})
	t.Run("a replica is ready and fails", func(t *testing.T) {
		pod := w.pods(map[string]string{"app": "chat"})[0]
		w.fault(pod, `{"kind":"status","status":500,"path":"/v1/"}`)
		r.eventually(t, 1, "chat", "triage").says(t, `! +replica [0-9.]+:8000 is passed over, because it fails`)
		w.fault(pod, "")
	})
	t.Run("malformed keys", func(t *testing.T) {
		traffic.send("chat", func(r *http.Request) { r.Header.Set("X-Flexinfer-Cache-Key", "not a key") })
		r.run(t, 1, "chat", "triage", "symptoms").says(t, `! +[1-9]\d* keys of source explicit-header were malformed`, `! +requests route like at random`)
	})
	t.Run("no keys", func(t *testing.T) {
		traffic.send("", nil)
		r.run(t, 1, "chat", "routing", "symptoms").says(t, `[1-9]\d* service-fallback`, `[1-9]\d* service-dns`, `went to the Service, not to a replica`, `! +high fallback ratio, though endpoints are ready: requests carry no key`)
	})
	traffic.send("chat", nil)
	t.Run("requests wait", func(t *testing.T) {
		q := g.queue("sleeper", 3)
		w.eventuallyWaiting("inference", "sleeper", 3)
		r.run(t, 1, "sleeper", "baseline", "coldstart").says(t, `sleeper +least-loaded +0/1 +Loading`, `! +0 of 1 replicas are ready`, `! +3 requests wait for a replica`, `last active 20\d\d-`)
		w.fault(w.startedPods("sleeper", 1)[0], "")
		q.wait(t)
	})
	t.Run("a mistake in the Model", func(t *testing.T) {
		change(w, "spare", &v1alpha2.Model{}, func(m *v1alpha2.Model) { m.Annotations = map[string]string{"flexinfer.ai/routing": "sticky"} })
		r.eventually(t, 1, "spare", "baseline").says(t, `! +RoutingValid: .*"sticky" is no routing strategy`)
	})
	t.Run("bad command lines", func(t *testing.T) {
		r.run(t, 2, "chatt").says(t, `cannot read Model \S+/chatt: correct the name or --namespace`)
		r.run(t, 2, "chat", "-g", "inferense").says(t, `cannot read Gateway \S+/inferense: correct --gateway`)
		r.run(t, 2, "chat", "everything").says(t, `unknown section everything; there are: baseline`)
		r.run(t, 2, "chat", "-w", "soon").says(t, `--window is soon; give whole seconds`)
	})
}

// findRunbook is where the script is, from the repository's root or from here.
func findRunbook(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"docs/troubleshoot.sh", "../../docs/troubleshoot.sh"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal("docs/troubleshoot.sh is not found: run the tests from the repository's root or from test/cluster")
	return ""
}

// runbook runs the script in a world.
type runbook struct {
	*world
	script string
}

// output is what the script said.
type output string

func (r *runbook) run(t *testing.T, code int, arguments ...string) output {
	t.Helper()
	out, got := r.try(t, arguments...)
	if got != code {
		t.Errorf("exit code %d, want %d:\n%s", got, code, out)
	}
	return out
}

// eventually runs the script until it ends with a code: what is wrong, and what
// was, takes a moment to be known.
func (r *runbook) eventually(t *testing.T, code int, arguments ...string) (out output) {
	t.Helper()
	eventually(t, func() string {
		var got int
		if out, got = r.try(t, arguments...); got != code {
			return fmt.Sprintf("exit code %d, want %d:\n%s", got, code, out)
		}
		return ""
	})
	return out
}

func (r *runbook) try(t *testing.T, arguments ...string) (output, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	arguments = append([]string{"--namespace", r.namespace, "--window", "4"}, arguments...)
	out, err := exec.CommandContext(ctx, r.script, arguments...).CombinedOutput() //nolint:gosec // the script of the repository
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	t.Logf("%s %s\n%s", r.script, strings.Join(arguments, " "), out)
	if exit != nil {
		return output(out), exit.ExitCode()
	}
	return output(out), 0
}

// says checks for lines that match, in any order.
func (o output) says(t *testing.T, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(string(o)) {
			t.Errorf("no line is like %q", p)
		}
	}
}

// traffic is the requests of a few customers, each with a system prompt of its
// own, to a Model and to the label that it claims.
type traffic struct {
	target *target
	stop   chan struct{}
	ending sync.Once
	done   sync.WaitGroup

	mu    sync.Mutex
	model string // "": requests that name no customer, without any key
	edit  func(*http.Request)
}

func newTraffic(g *target) *traffic {
	f := &traffic{target: g, stop: make(chan struct{}), model: "chat"}
	for range 4 {
		f.done.Go(f.run)
	}
	return f
}

func (f *traffic) end() {
	f.ending.Do(func() { close(f.stop) })
	f.done.Wait()
}

// send changes the requests from the next one on.
func (f *traffic) send(model string, edit func(*http.Request)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.model, f.edit = model, edit
}

func (f *traffic) run() {
	for i := 0; ; i++ {
		select {
		case <-f.stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		f.mu.Lock()
		model, edit := f.model, f.edit
		f.mu.Unlock()
		f.one(i, model, edit)
	}
}

// one sends one request. What becomes of it is for the runbook to tell.
func (f *traffic) one(i int, model string, edit func(*http.Request)) {
	path, body := "/v1/embeddings", `{"model":"chat"}`
	if model != "" {
		if i%3 == 0 {
			model = "team-chat"
		}
		path, body = "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"max_tokens":4,"messages":[{"role":"system","content":"You serve customer %d."},{"role":"user","content":"Hello"}]}`, model, i%20)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.target.url+path, strings.NewReader(body))
	if err != nil {
		return
	}
	if edit != nil {
		edit(request)
	}
	if response, err := f.target.client.Do(request); err == nil {
		_, _ = readAll(response)
	}
}
