package fastproxy

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// sickEngine answers with its number, after a millisecond or so of work, or,
// while it is sick, with a 500 at once.
type sickEngine struct {
	number int
	sick   atomic.Bool
	served atomic.Int64
}

func (e *sickEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	if e.sick.Load() {
		w.WriteHeader(500)
		return
	}
	time.Sleep(5 * time.Millisecond)
	e.served.Add(1)
	fmt.Fprint(w, e.number)
}

// TestFastFailingPod: of four pods one answers 500 in a millisecond. Under every
// strategy less than 2 % of the requests of 60 clients fail in the steady state,
// the keys of that pod are answered by others, and return to it within 30 s of
// its recovery.
func TestFastFailingPod(t *testing.T) {
	for _, strategy := range strategies {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			fastFailingPod(t, strategy)
		})
	}
}

// fastFailPhase is how long the pod fails in the steady state that is measured.
const fastFailPhase = 4 * time.Second

func fastFailingPod(t *testing.T, strategy routing.Strategy) {
	engines := make([]*sickEngine, 4)
	var addresses []string
	for i := range engines {
		engines[i] = &sickEngine{number: i}
		addresses = append(addresses, startEngine(t, engines[i]))
	}
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, strategy, addresses...), port, nil)
	client := newClient(t)
	ask := func(key int) (status int, engine string) {
		resp := p.post(client, "/v1/chat/completions",
			fmt.Sprintf(`{"session_id":"s%d","messages":[{"role":"system","content":"p%d"}]}`, key, key))
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	keyed := strategy == routing.StrategySession || strategy == routing.StrategyPrefix
	const keys = 60
	var home [keys]string
	for k := range home {
		_, home[k] = ask(k)
	}
	var requests, failed atomic.Int64
	var stop atomic.Bool
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop.Store(true)
	for k := range keys {
		clients.Go(func() {
			for !stop.Load() {
				requests.Add(1)
				if s, _ := ask(k); s != 200 {
					failed.Add(1)
				}
			}
		})
	}
	engines[0].sick.Store(true)
	time.Sleep(time.Second) // the first failures
	requests.Store(0)
	failed.Store(0)
	time.Sleep(fastFailPhase)
	n, f := requests.Load(), failed.Load()
	t.Logf("%d of %d requests failed in the steady state (%.2f %%)", f, n, 100*float64(f)/float64(n))
	if f*50 >= n {
		t.Errorf("%d of %d requests failed", f, n)
	}
	engines[0].sick.Store(false)
	served, recovered := engines[0].served.Load(), time.Now()
	for engines[0].served.Load() < served+50 {
		if time.Since(recovered) > 30*time.Second {
			t.Fatal("the pod gets nothing 30 s after its recovery")
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("the pod serves again %v after its recovery", time.Since(recovered))
	stop.Store(true)
	clients.Wait()
	for k := range home {
		s, engine := ask(k)
		if s != 200 || keyed && engine != home[k] {
			t.Errorf("key %d: %d from engine %s, home is %s", k, s, engine, home[k])
		}
	}
}
