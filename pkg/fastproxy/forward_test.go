package fastproxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// script is an engine that treats its n-th request as the n-th step says, and
// all later ones as the last.
type script struct {
	steps []func(w http.ResponseWriter, r *http.Request)
	calls atomic.Int64
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := int(s.calls.Add(1)) - 1
	io.Copy(io.Discard, r.Body)
	s.steps[min(n, len(s.steps)-1)](w, r)
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprintf(w, "status %d", code)
	}
}

func delayed(d time.Duration, then func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(d):
		}
		then(w, r)
	}
}

func drop(w http.ResponseWriter, _ *http.Request) {
	if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
		c.Close()
	}
}

const chat = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

// TestRetries holds what is tried again, how often, and what the client gets.
func TestRetries(t *testing.T) {
	type steps = []func(http.ResponseWriter, *http.Request)
	ok, ms := status(200), time.Millisecond
	for _, c := range []struct {
		name   string
		steps  steps
		edit   func(*routing.Rule)
		status int
		calls  int64
	}{
		{"a 500 is no reason by itself", steps{status(500), ok}, nil, 500, 1},
		{"no answer is no reason by itself", steps{drop, ok}, nil, 502, 1},
		{"codes are tried again", steps{status(500), status(500), ok}, retry(3, 500), 200, 3},
		{"only as often as asked", steps{status(500), status(500), status(500), ok}, retry(2, 500), 500, 3},
		{"other codes are not", steps{status(503), ok}, retry(3, 500), 503, 1},
		{"attempts 0 is never", steps{status(500), ok}, retry(0, 500), 500, 1},
		{"no answer, where retries were asked for", steps{drop, drop, ok}, retry(2), 200, 3},
		{"request time-out", steps{delayed(400*ms, ok)}, func(r *routing.Rule) { r.RequestTimeout = 50 * ms }, 504, 1},
		{"request time-out over tries", steps{delayed(80*ms, status(500))}, func(r *routing.Rule) {
			retry(5, 500)(r)
			r.RequestTimeout = 120 * ms
		}, 504, 2},
		{"backend time-out, tried again", steps{delayed(400*ms, ok), delayed(400*ms, ok), ok}, func(r *routing.Rule) {
			retry(2, 504)(r)
			r.BackendTimeout, r.RequestTimeout = 50*ms, 5*time.Second
		}, 200, 3},
		{"backend time-out", steps{delayed(400*ms, ok)}, func(r *routing.Rule) { r.BackendTimeout = 50 * ms }, 504, 1},
		{"back-off longer than the time left", steps{status(500), ok}, func(r *routing.Rule) {
			retry(2, 500)(r)
			r.Retry.Backoff, r.RequestTimeout = time.Second, 200*ms
		}, 500, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			engine := &script{steps: c.steps}
			port := testrig.FreePort(t)
			cfg := oneModel(port, routing.StrategyDefault, startEngine(t, engine))
			if c.edit != nil {
				c.edit(&cfg.Routes[0].Rules[0])
			}
			p := startProxy(t, cfg, port, nil)
			resp := p.post(newClient(t), "/v1/chat/completions", chat)
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Errorf("status %d (%s), want %d", resp.StatusCode, body, c.status)
			}
			if n := engine.calls.Load(); n != c.calls {
				t.Errorf("%d requests reached the engine, want %d", n, c.calls)
			}
			eventually(t, "the ledger is back at zero", func() bool { return p.loads() == 0 })
		})
	}
}

// TestBackoffHoldsNothing: while a request waits for its next try, the endpoint
// of the last one does not count it.
func TestBackoffHoldsNothing(t *testing.T) {
	engine := &script{steps: []func(http.ResponseWriter, *http.Request){status(500), status(200)}}
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyDefault, startEngine(t, engine))
	retry(1, 500)(&cfg.Routes[0].Rules[0])
	cfg.Routes[0].Rules[0].Retry.Backoff = 700 * time.Millisecond
	p := startProxy(t, cfg, port, nil)
	done := make(chan int, 1)
	go func() {
		resp := p.post(newClient(t), "/v1/chat/completions", chat)
		resp.Body.Close()
		done <- resp.StatusCode
	}()
	eventually(t, "the first try is over", func() bool { return engine.calls.Load() == 1 && p.loads() == 0 })
	if n := engine.calls.Load(); n != 1 {
		t.Errorf("%d tries before the back-off was over", n)
	}
	if got := <-done; got != 200 {
		t.Errorf("status %d", got)
	}
}

func TestBackoff(t *testing.T) {
	f := func(first time.Duration, asked int, want time.Duration) {
		t.Helper()
		if got := backoff(first, asked); got != want {
			t.Errorf("%v after %d: %v, want %v", first, asked, got, want)
		}
	}
	f(0, 3, 0)
	f(time.Second, 0, time.Second)
	f(time.Second, 3, 8*time.Second)
	f(time.Second, 100, 64*time.Second)
	f(99999*time.Hour, 100, 64*time.Hour)
}

func retry(attempts int, codes ...int) func(*routing.Rule) {
	return func(r *routing.Rule) { r.Retry = &routing.Retry{Attempts: attempts, Codes: codes} }
}

// TestRefusedConnectionsCostNoError: of four endpoints three refuse; every
// request is answered under every strategy, and the refusing ones are passed over.
func TestRefusedConnectionsCostNoError(t *testing.T) {
	for _, strategy := range []routing.Strategy{
		routing.StrategyDefault, routing.StrategySession, routing.StrategyPrefix, routing.StrategyLeastLoaded,
	} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			dead := func() string { return fmt.Sprintf("127.0.0.1:%d", testrig.FreePort(t)) }
			port := testrig.FreePort(t)
			p := startProxy(t, oneModel(port, strategy, startEngine(t, http.HandlerFunc(status(200))), dead(), dead(), dead()), port, nil)
			client := newClient(t)
			var failed atomic.Int64
			var clients sync.WaitGroup
			for i := range 10 {
				clients.Go(func() {
					for j := range 20 {
						resp := p.post(client, "/v1/chat/completions",
							fmt.Sprintf(`{"session_id":"s%d","messages":[{"role":"system","content":"p%d"}]}`, i*20+j, i*20+j))
						if resp.StatusCode != 200 {
							failed.Add(1)
						}
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				})
			}
			clients.Wait()
			if n := failed.Load(); n != 0 {
				t.Errorf("%d of 200 requests failed", n)
			}
			passed := 0
			for _, e := range p.snapshot().Backend("Model/ns/m").Ready {
				if e.PassedOver(time.Now().UnixNano()) {
					passed++
				}
			}
			if passed == 0 {
				t.Error("no refusing endpoint is passed over")
			}
		})
	}
}

// TestColdStart: requests wait for the first replica, go out at once when it is
// there, and the wait does not count against the time for the answer; polls,
// a full queue, a time-out and a failed phase are answered as the contract says.
func TestColdStart(t *testing.T) {
	engine := startEngine(t, http.HandlerFunc(status(200)))
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyPrefix)
	cfg.Backends[0].Serverless = &routing.Serverless{ColdStartTimeout: 5 * time.Second}
	cfg.Routes[0].Rules[0].RequestTimeout = 300 * time.Millisecond
	p := startProxy(t, cfg, port, func(o *Options) { o.Settings.MaxQueueSize = 4 })
	client := newClient(t)
	for range 2 { // the second cold start works like the first
		statuses := make(chan int, 5)
		for range 4 {
			go func() {
				resp := p.post(client, "/v1/chat/completions", chat)
				resp.Body.Close()
				statuses <- resp.StatusCode
			}()
		}
		queue := &attachmentOf(p.snapshot().Backend("Model/ns/m").State).queue
		eventually(t, "four requests wait", func() bool { return queue.depth.Load() == 4 })
		full := p.post(client, "/v1/chat/completions", chat)
		body, _ := io.ReadAll(full.Body)
		if full.StatusCode != 503 || !strings.Contains(string(body), `"queue_full"`) || full.Header.Get("Retry-After") == "" {
			t.Errorf("fifth request: %d %s", full.StatusCode, body)
		}
		poll, err := client.Get(p.url("/v1/models"))
		if err != nil {
			t.Fatal(err)
		}
		if body, _ = io.ReadAll(poll.Body); poll.StatusCode != 503 || !strings.Contains(string(body), `"model_idle"`) {
			t.Errorf("poll: %d %s", poll.StatusCode, body)
		}
		time.Sleep(350 * time.Millisecond) // longer than the request time-out
		p.config.EndpointLists[0].Endpoints = []routing.Endpoint{{Address: engine, State: routing.EndpointReady}}
		p.apply()
		for range 4 {
			if s := <-statuses; s != 200 {
				t.Errorf("a waiting request got %d", s)
			}
		}
		p.config.EndpointLists[0].Endpoints = nil
		p.apply()
	}
	p.config.Backends[0].Serverless.ColdStartTimeout = 50 * time.Millisecond
	p.apply()
	if resp := p.post(client, "/v1/chat/completions", chat); resp.StatusCode != 504 {
		t.Errorf("after the time-out: %d, want 504", resp.StatusCode)
	}
	p.config.Backends[0].Phase = routing.PhaseFailed
	p.apply()
	resp := p.post(client, "/v1/chat/completions", chat)
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 503 || !strings.Contains(string(body), `"activation_failed"`) || resp.Header.Get("Retry-After") != "" {
		t.Errorf("failed phase: %d %s", resp.StatusCode, body)
	}
}
