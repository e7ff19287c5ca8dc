package fastproxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// raggedEngine echoes bodies after random pauses, half of them in two pieces.
func raggedEngine(seed uint64) http.HandlerFunc {
	var salt atomic.Uint64
	return func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		rnd := rand.New(rand.NewPCG(seed, salt.Add(1)))
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
		if len(b) > 0 && rnd.IntN(2) == 0 {
			w.Write(b[:1])
			http.NewResponseController(w).Flush()
			b = b[1:]
		}
		w.Write(b)
	}
}

// leaving are clients that leave in the middle of a request beside clients that
// stay, over one front.
type leaving struct {
	t           *testing.T
	f           protocolFront
	seed        uint64
	begun       time.Time
	left, right atomic.Int64
}

// going says whether there is more to do: until enough have left, within bounds.
func (l *leaving) going() bool {
	d := time.Since(l.begun)
	return !l.t.Failed() && d < 40*time.Second && (d < time.Second || l.left.Load() < int64(stormScale(2000)))
}

// TestLeavingClientsOfEveryProtocol: thousands of clients close, reset or cut
// their requests at any moment, over HTTP/1.1, TLS and HTTP/2, there both whole
// connections and single streams of a connection that others use: not one of the
// others gets a wrong answer.
func TestLeavingClientsOfEveryProtocol(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyDefault, startEngine(t, raggedEngine(seed)))
	p := startProxy(t, cfg, port, nil)
	for _, f := range everyFront(t, p) {
		t.Run(f.name, func(t *testing.T) {
			l := &leaving{t: t, f: f, seed: seed, begun: time.Now()}
			leave := l.leaveConnection
			if f.http2 {
				leave = l.leaveStreams
			}
			var wg sync.WaitGroup
			for n := range 3 {
				wg.Go(func() { l.each(uint64(n), leave) })
				wg.Go(func() { l.stay(n) })
			}
			wg.Wait()
			t.Logf("%d left, %d stayed", l.left.Load(), l.right.Load())
			if l.left.Load() == 0 || l.right.Load() == 0 {
				t.Error("nobody left, or nobody stayed")
			}
			f.client.CloseIdleConnections()
			eventually(t, "the ledger is zero", func() bool { return p.loads() == 0 })
		})
	}
}

// each calls leave as long as the test goes on.
func (l *leaving) each(n uint64, leave func(rnd *rand.Rand, name string)) {
	rnd := rand.New(rand.NewPCG(l.seed, 1<<40+n))
	for i := 0; l.going() && i < 100_000; i++ {
		leave(rnd, fmt.Sprintf("leaver %d/%d", n, i))
	}
}

// pause is a random moment of a request's life.
func pause(rnd *rand.Rand) { time.Sleep(time.Duration(rnd.IntN(600)) * time.Microsecond) }

// leaveConnection sends a request over HTTP/1.1 and closes or resets the
// connection.
func (l *leaving) leaveConnection(rnd *rand.Rand, body string) {
	scheme, host, _ := strings.Cut(l.f.url, "://")
	tcp, err := net.Dial("tcp", host)
	if err != nil {
		l.t.Error(err)
		return
	}
	defer tcp.Close()
	tcp.SetDeadline(time.Now().Add(20 * time.Second))
	c := tcp
	if scheme == "https" {
		c = tls.Client(tcp, &tls.Config{InsecureSkipVerify: true})
	}
	declared := len(body) + rnd.IntN(2) // every other one leaves in its body
	fmt.Fprintf(c, "POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n%s", declared, body)
	if declared == len(body) && rnd.IntN(3) == 0 {
		c.Read(make([]byte, 1)) // the answer has just begun
	} else {
		pause(rnd)
	}
	if rnd.IntN(2) == 0 {
		tcp.(*net.TCPConn).SetLinger(0)
	}
	l.left.Add(1)
}

// leaveStreams resets a stream of the connection that the others use; one in 20
// times it cuts a connection of its own with many streams on it. On the shared
// connection two requests come to their end for each that is reset: see
// hastyResets.
func (l *leaving) leaveStreams(rnd *rand.Rand, body string) {
	if rnd.IntN(20) == 0 {
		c := dialStorm(l.t, l.f.url)
		for range 20 {
			if id := c.open("POST", "/x", false); rnd.IntN(2) == 0 {
				c.send(c.framer.WriteData(id, rnd.IntN(2) == 0, []byte(body)))
			}
		}
		pause(rnd)
		c.conn.Close()
		l.left.Add(20)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	time.AfterFunc(time.Duration(rnd.IntN(600))*time.Microsecond, cancel)
	req, err := http.NewRequestWithContext(ctx, "POST", l.f.url+"/x", strings.NewReader(body))
	if err != nil {
		l.t.Error(err)
		return
	}
	if resp, err := l.f.client.Do(req); err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	l.left.Add(1)
	for range 2 {
		askForEcho(l.t, l.f.client, l.f.url, body)
		l.right.Add(1)
	}
}

// stay sends requests and must get its own answer to each.
func (l *leaving) stay(n int) {
	for i := 0; l.going() && i < 100_000; i++ {
		askForEcho(l.t, l.f.client, l.f.url, "stayer "+strconv.Itoa(n)+"/"+strconv.Itoa(i))
		l.right.Add(1)
	}
}
