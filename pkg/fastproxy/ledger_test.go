package fastproxy

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// moodyEngine answers each request as its X-Mood asks: soon, late, in a stream,
// with an error, by closing before or within the answer.
func moodyEngine(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	hijack := func(answer string) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			io.WriteString(c, answer)
			c.Close()
		}
	}
	switch r.Header.Get("X-Mood") {
	case "late":
		time.Sleep(5 * time.Millisecond)
	case "stream":
		for range 5 {
			io.WriteString(w, "data: x\n\n")
			w.(http.Flusher).Flush()
			time.Sleep(time.Millisecond)
		}
		return
	case "fails":
		w.WriteHeader(500)
	case "closes":
		hijack("")
		return
	case "dies":
		hijack("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
		return
	case "hangs":
		select {
		case <-r.Context().Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
	io.WriteString(w, `{"ok":true}`)
}

// TestLedgerReturnsToZero: after any mix of answers, errors, cuts, time-outs,
// retries, panics in the pipeline and clients that leave at any time, over each
// strategy, no exchange and no reservation is left in any ledger, and no byte in
// the body budget.
func TestLedgerReturnsToZero(t *testing.T) {
	for _, strategy := range []routing.Strategy{
		routing.StrategyDefault, routing.StrategySession, routing.StrategyPrefix, routing.StrategyLeastLoaded,
	} {
		t.Run(string(strategy), func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			ledgerReturnsToZero(t, strategy, seed)
		})
	}
}

func ledgerReturnsToZero(t *testing.T, strategy routing.Strategy, seed uint64) {
	port := testrig.FreePort(t)
	engine := http.HandlerFunc(moodyEngine)
	dead := fmt.Sprintf("127.0.0.1:%d", testrig.FreePort(t))
	cfg := oneModel(port, strategy, startEngine(t, engine), startEngine(t, engine), startEngine(t, engine), dead)
	rule := &cfg.Routes[0].Rules[0]
	rule.RequestTimeout = 200 * time.Millisecond
	rule.Retry = &routing.Retry{Attempts: 2, Codes: []int{500}}
	p := startProxy(t, cfg, port, nil)
	p.front.core.serve = func(x *exchange) {
		if string(x.req.header.Peek("X-Mood")) == "panics" {
			x.begin()
			x.chooseListener()
			x.match()
			x.chooseBackend()
			x.decide()
			panic("injected")
		}
		x.serve()
	}
	moods := []string{"", "late", "stream", "fails", "closes", "dies", "hangs", "panics"}
	var clients sync.WaitGroup
	for client := range uint64(8) {
		clients.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, client))
			for range 60 {
				askAndMaybeLeave(p.address(), moods[rnd.IntN(len(moods))], rnd)
			}
		})
	}
	clients.Wait()
	eventually(t, "every ledger is at zero", func() bool { return p.loads() == 0 && p.bodies.used.Load() == 0 })
}

// askAndMaybeLeave sends one request on a connection of its own and reads the
// answer to its end, or leaves at a random moment.
func askAndMaybeLeave(address, mood string, rnd *rand.Rand) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	const body = `{"messages":[{"role":"user","content":"hi"}]}`
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nX-Mood: %s\r\nContent-Length: %d\r\n\r\n%s", mood, len(body), body)
	if rnd.IntN(3) == 0 {
		time.Sleep(time.Duration(rnd.IntN(8000)) * time.Microsecond)
		return
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
