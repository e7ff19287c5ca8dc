package fastproxy

import (
	"bufio"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// closeSeen is how a peer's close looks from the engine: FIN is io.EOF.
func closeSeen(c *net.TCPConn, r *bufio.Reader) error {
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := r.ReadByte()
	return err
}

// TestPoolClosesWithFIN: unused connections end with FIN, whoever ends them and
// whatever the endpoint has sent on them in the meantime.
func TestPoolClosesWithFIN(t *testing.T) {
	f := func(name string, o upstreamOptions, surplus string, end func(p *pool, c *legClient)) {
		t.Run(name, func(t *testing.T) {
			seen := make(chan error, 10)
			e := startRawEngine(t, func(c *net.TCPConn, _ int) {
				r := bufio.NewReader(c)
				for {
					if _, err := r.Peek(1); err != nil {
						seen <- err
						return
					}
					if _, err := readRequest(r); err != nil {
						seen <- err
						return
					}
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					if surplus != "" {
						time.Sleep(50 * time.Millisecond) // after it was given back
						io.WriteString(c, surplus)
					}
				}
			})
			p := newPool(e.address, &o)
			c := newLegClient("GET")
			if got, err := c.do(p, nil, nil); err != nil || string(got) != "ok" {
				t.Fatalf("%q, %v", got, err)
			}
			if surplus != "" {
				time.Sleep(150 * time.Millisecond)
			}
			if open, idle := p.counts(); o.MaxAge == 0 && (open != 1 || idle != 1) {
				t.Fatalf("%d open, %d kept", open, idle)
			}
			end(p, c)
			if err := <-seen; err != io.EOF {
				t.Fatalf("the engine saw %v", err)
			}
			p.close()
			if open, idle := p.counts(); open != 0 || idle != 0 {
				t.Fatalf("%d open, %d kept", open, idle)
			}
		})
	}
	wait := func(p *pool, _ *legClient) {
		eventually(t, "the connection was closed", func() bool { open, _ := p.counts(); return open == 0 })
	}
	again := func(p *pool, c *legClient) {
		if got, err := c.do(p, nil, nil); err != nil || string(got) != "ok" {
			t.Errorf("the next exchange got %q, %v", got, err)
		}
	}
	f("idle time", upstreamOptions{IdleTimeout: 100 * time.Millisecond}, "", wait)
	f("idle time with surplus", upstreamOptions{IdleTimeout: 300 * time.Millisecond}, "HTTP/1.1 200 OK\r\n\r\nPOISON", wait)
	f("pool closed", upstreamOptions{}, "", func(p *pool, _ *legClient) { p.close() })
	f("pool closed with surplus", upstreamOptions{}, "POISON", func(p *pool, _ *legClient) { p.close() })
	f("next exchange finds surplus", upstreamOptions{}, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON", again)
	f("too old", upstreamOptions{MaxAge: time.Nanosecond}, "", func(*pool, *legClient) {})
}

// TestPoolKeeps: connections are used last in, first out, up to MaxIdle of them
// kept, and for as long as the endpoint says at most.
func TestPoolKeeps(t *testing.T) {
	e := startRawEngine(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	p := newPool(e.address, &upstreamOptions{MaxIdle: 3})
	defer p.close()
	var clients [5]*legClient
	for i := range clients {
		clients[i] = newLegClient("GET")
		if err := clients[i].begin(p, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range clients {
		if _, err := clients[i].finish(); err != nil {
			t.Fatal(err)
		}
	}
	if open, idle := p.counts(); open != 3 || idle != 3 {
		t.Fatalf("%d open, %d kept", open, idle)
	}
	last := p.idle[2]
	if err := clients[0].begin(p, nil, nil); err != nil || clients[0].leg.conn != last {
		t.Fatalf("not the connection used last (%v)", err)
	}
	clients[0].finish()

	e = startRawEngine(t, answering("HTTP/1.1 200 OK\r\nKeep-Alive: max=9, Timeout=1\r\nContent-Length: 2\r\n\r\nok"))
	p = newPool(e.address, &upstreamOptions{})
	defer p.close()
	if _, err := clients[0].do(p, nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := time.Duration(p.idleLimit); got != 500*time.Millisecond {
		t.Errorf("idle time %v", got)
	}
	eventually(t, "the connection was closed", func() bool { open, _ := p.counts(); return open == 0 })
}

// TestPoolMaxOpen: over MaxOpen requests wait for a connection in turn, as long
// as a connect may take or until their client leaves.
func TestPoolMaxOpen(t *testing.T) {
	e := startRawEngine(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	p := newPool(e.address, &upstreamOptions{MaxOpen: 2})
	defer p.close()
	a, b := newLegClient("GET"), newLegClient("GET")
	for _, c := range []*legClient{a, b} {
		if err := c.begin(p, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	late := newLegClient("GET")
	late.times.Connect = 100 * time.Millisecond
	if _, err := late.do(p, nil, nil); err != errPoolFull {
		t.Fatal(err)
	}
	gone := newLegClient("GET")
	time.AfterFunc(50*time.Millisecond, gone.slot.fire)
	if _, err := gone.do(p, nil, nil); err != errClientGone {
		t.Fatal(err)
	}
	results := make(chan error, 20)
	for range cap(results) {
		go func() {
			c := newLegClient("GET")
			got, err := c.do(p, nil, nil)
			if err == nil && string(got) != "ok" {
				err = errors.New("got " + string(got))
			}
			results <- err
		}()
	}
	time.Sleep(50 * time.Millisecond)
	a.leg.close(false) // its place, and
	b.finish()         // its connection go on
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if open, _ := p.counts(); open > 2 || e.accepted() > 3 {
		t.Errorf("%d open of 2, %d made", open, e.accepted())
	}
}

// TestStaleConnections: over 20,000 POSTs to an engine that closes connections
// at random moments of their idleness, that of the write included, no error
// reaches a caller that replays once on errStale, and no request is answered
// with another's answer.
func TestStaleConnections(t *testing.T) {
	const clients, each = 8, 2500
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var served atomic.Int64
	e := startRawEngine(t, func(c *net.TCPConn, n int) {
		rnd := rand.New(rand.NewPCG(seed, uint64(n)))
		r := bufio.NewReader(c)
		for {
			b, err := readRequest(r)
			if err != nil {
				return
			}
			served.Add(1)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(b))+"\r\n\r\n"+string(b))
			if rnd.IntN(5) == 0 {
				c.SetReadDeadline(time.Now().Add(time.Duration(rnd.IntN(300)) * time.Microsecond))
				if _, err := r.Peek(1); err != nil {
					return // nothing came: the idle time is over
				}
				c.SetReadDeadline(time.Time{})
			}
		}
	})
	p := newPool(e.address, &upstreamOptions{})
	defer p.close()
	var replays atomic.Int64
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(1000+n)))
			c := newLegClient("POST")
			for i := range each {
				body := strconv.Itoa(n) + "/" + strconv.Itoa(i)
				c.request("POST")
				got, replayed, err := c.replaying(p, []byte(body))
				if err != nil || string(got) != body {
					t.Errorf("request %s: %q, %v (replayed: %v)", body, got, err, replayed)
					return
				}
				if replayed {
					replays.Add(1)
				}
				if rnd.IntN(4) == 0 {
					time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d requests, %d connections, %d replays, engine served %d", clients*each, e.accepted(), replays.Load(), served.Load())
	if e.accepted() < 100 {
		t.Error("the engine closed hardly any connection: the test shows nothing")
	}
}

// TestClosedWhileIdle: connections that an engine closed while they were unused
// are replaced without an error, replay or second request.
func TestClosedWhileIdle(t *testing.T) {
	var served atomic.Int64
	e := startRawEngine(t, func(c *net.TCPConn, n int) {
		r := bufio.NewReader(c)
		if _, err := readRequest(r); err != nil {
			return
		}
		served.Add(1)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		if n%2 == 0 {
			c.SetLinger(0)
		}
	})
	p := newPool(e.address, &upstreamOptions{})
	defer p.close()
	large := pattern(200_000)
	for i := range 40 {
		c := newLegClient("POST")
		body := large
		if i%2 == 0 {
			body = body[:100]
		}
		if got, err := c.do(p, body, nil); err != nil || string(got) != "ok" {
			t.Fatalf("%d: %q, %v", i, got, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if served.Load() != 40 {
		t.Errorf("%d requests were served", served.Load())
	}
}

// TestSurplusNeverReaches: whatever an engine sends beyond an answer, together
// with it or later, no later exchange reads it, and its endpoint's connections
// are not kept for a while. The 408 with which servers retire unused
// connections is no such thing.
func TestSurplusNeverReaches(t *testing.T) {
	f := func(name, surplus string, apart, large, suspect bool) {
		t.Run(name, func(t *testing.T) {
			wrote := make(chan struct{}, 100)
			e := startRawEngine(t, func(c *net.TCPConn, n int) {
				r := bufio.NewReader(c)
				for i := 0; ; i++ {
					b, err := readRequest(r)
					if err != nil {
						return
					}
					answer := "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(b)) + "\r\n\r\n" + string(b)
					if i%3 != 1 {
						io.WriteString(c, answer)
						continue
					}
					if !apart {
						io.WriteString(c, answer+surplus)
						continue
					}
					io.WriteString(c, answer)
					time.Sleep(5 * time.Millisecond)
					io.WriteString(c, surplus)
					wrote <- struct{}{}
				}
			})
			p := newPool(e.address, &upstreamOptions{})
			defer p.close()
			c := newLegClient("POST")
			padding := ""
			if large {
				padding = string(pattern(200_000))
			}
			for i := range 20 {
				body := "request " + strconv.Itoa(i) + padding
				if got, err := c.do(p, []byte(body), nil); err != nil || string(got) != body {
					t.Fatalf("%d: %d bytes, %v", i, len(got), err)
				}
				if i == 1 && apart {
					<-wrote
				}
			}
			if p.suspect != 0 != suspect {
				t.Errorf("suspect: %v", !suspect)
			}
			if n := e.accepted(); suspect && n != 19 {
				t.Errorf("%d connections", n)
			}
		})
	}
	const poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON"
	f("together", poison, false, false, true)
	f("together, large request", poison, false, true, true)
	f("apart", poison, true, false, true)
	f("apart, large request", poison, true, true, true)
	f("one byte apart", "\n", true, false, true)
}

// TestRetiredWith408: a server that says 408 before it closes an unused
// connection costs no error, and its connections are kept on.
func TestRetiredWith408(t *testing.T) {
	retired := make(chan struct{}, 10)
	e := startRawEngine(t, func(c *net.TCPConn, n int) {
		r := bufio.NewReader(c)
		for i := 0; ; i++ {
			if _, err := readRequest(r); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			if n == 0 {
				time.Sleep(5 * time.Millisecond)
				io.WriteString(c, "HTTP/1.0 408 Request Time-out\r\nConnection: close\r\n\r\n")
				retired <- struct{}{}
				return
			}
		}
	})
	p := newPool(e.address, &upstreamOptions{})
	defer p.close()
	c := newLegClient("POST")
	for i := range 5 {
		if got, err := c.do(p, nil, nil); err != nil || string(got) != "ok" {
			t.Fatalf("%d: %q, %v", i, got, err)
		}
		if i == 0 {
			<-retired
		}
	}
	if e.accepted() != 2 {
		t.Errorf("%d connections", e.accepted())
	}
}

// TestLeavingClients is the trap of a late event: clients that leave in the
// middle of their requests share connections with clients that do not. Most of
// them leave in the very moment in which their answer arrives, when the
// connection goes back to the pool. None of the others ever sees an error or
// another's answer, every request of a client that left ends, and nothing stays
// open.
func TestLeavingClients(t *testing.T) {
	const stayers, leavers = 4, 8
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var leaving sync.Map // body -> *clientSlot that leaves when it is answered
	e := startRawEngine(t, func(c *net.TCPConn, n int) {
		rnd := rand.New(rand.NewPCG(seed, uint64(n)))
		r := bufio.NewReader(c)
		for {
			b, err := readRequest(r)
			if err != nil {
				return
			}
			s := string(b)
			answer := "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(s)) + "\r\n\r\n" + s
			if rnd.IntN(2) == 0 {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+hexOf(len(s)-1)+"\r\n"+s[:len(s)-1]+"\r\n")
				answer = "1\r\n" + s[len(s)-1:] + "\r\n0\r\n\r\n"
			}
			io.WriteString(c, answer)
			if slot, ok := leaving.LoadAndDelete(s); ok {
				spin(time.Duration(rnd.IntN(100)) * time.Microsecond)
				slot.(*clientSlot).fire()
			}
		}
	})
	p := newPool(e.address, &upstreamOptions{})
	defer p.close()
	var left, unharmed, right atomic.Int64
	begun := time.Now()
	going := func() bool {
		d := time.Since(begun)
		return d < 2*time.Second || d < 40*time.Second && (left.Load() < 3000 || unharmed.Load() < 1000)
	}
	var wg sync.WaitGroup
	leave := func(rnd *rand.Rand, body string) {
		c := newLegClient("POST")
		var fires sync.WaitGroup
		fire := func(after time.Duration) {
			fires.Go(func() { spin(after); c.slot.fire() })
		}
		moment := rnd.IntN(3)
		switch moment {
		case 0:
			leaving.Store(body, &c.slot)
		case 1:
			fires.Add(1)
			time.AfterFunc(time.Duration(rnd.IntN(200))*time.Microsecond, func() { defer fires.Done(); c.slot.fire() })
		}
		err := c.begin(p, []byte(body), nil)
		var got []byte
		if err == nil {
			if moment == 2 {
				fire(time.Duration(rnd.IntN(3)) * time.Microsecond)
			}
			got, err = c.finish()
		}
		switch {
		case err == errClientGone:
			left.Add(1)
		case err != nil || string(got) != body:
			t.Errorf("%s: %q, %v", body, got, err)
		default:
			unharmed.Add(1)
		}
		fires.Wait()
		if c.leg.conn != nil || c.slot.inflight.Load() != nil {
			t.Errorf("%s still holds a connection", body)
		}
	}
	for n := range leavers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(2000+n)))
			for i := 0; going() && i < 50_000; i++ {
				leave(rnd, "leaver "+strconv.Itoa(n)+"/"+strconv.Itoa(i))
			}
		})
	}
	for n := range stayers {
		wg.Go(func() {
			c := newLegClient("POST")
			for i := 0; going() && i < 50_000; i++ {
				body := "stayer " + strconv.Itoa(n) + "/" + strconv.Itoa(i)
				c.request("POST")
				got, err := c.do(p, []byte(body), nil)
				if err != nil || string(got) != body {
					t.Errorf("%s: %q, %v", body, got, err)
					return
				}
				right.Add(1)
			}
		})
	}
	wg.Wait()
	t.Logf("%d left in the middle, %d a moment too late, %d stayed; %d connections",
		left.Load(), unharmed.Load(), right.Load(), e.accepted())
	if left.Load() < 300 || unharmed.Load() < 100 {
		t.Error("hardly any client left in the middle, or too late: the test shows little")
	}
	if open, idle := p.counts(); open != idle {
		t.Errorf("%d connections are open, %d kept", open, idle)
	}
}

// spin passes d without giving up the processor.
func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
	}
}

// TestAbortIsSeenAtOnce: the engine sees the close when a client leaves, before
// the first byte as well as in the middle of a stream.
func TestAbortIsSeenAtOnce(t *testing.T) {
	f := func(name, first string) {
		t.Run(name, func(t *testing.T) {
			seen := make(chan time.Time, 1)
			e := startRawEngine(t, func(c *net.TCPConn, _ int) {
				r := bufio.NewReader(c)
				readRequest(r)
				io.WriteString(c, first)
				if err := closeSeen(c, r); err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
					seen <- time.Now()
				}
			})
			p := newPool(e.address, &upstreamOptions{})
			var worst time.Duration
			for range 20 {
				c := newLegClient("GET")
				var fired atomic.Int64
				time.AfterFunc(20*time.Millisecond, func() {
					fired.Store(time.Now().UnixNano())
					c.slot.fire()
				})
				if got, err := c.do(p, nil, nil); err != errClientGone {
					t.Fatalf("%q, %v", got, err)
				}
				worst = max(worst, (<-seen).Sub(time.Unix(0, fired.Load())))
			}
			t.Logf("worst of 20: %v", worst)
		})
	}
	f("before the first byte", "")
	f("within the head", "HTTP/1.1 200 OK\r\n")
	f("within the stream", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	f("within a long body", "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("x", 100_000))
}
