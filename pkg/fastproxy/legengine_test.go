package fastproxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// rawEngine is an inference engine as a socket sees it: serve gets every
// connection, numbered from 0, and does with it what the test is about.
type rawEngine struct {
	address string
	ln      net.Listener
	wg      sync.WaitGroup
	mu      sync.Mutex
	conns   []net.Conn
}

func startRawEngine(t testing.TB, serve func(c *net.TCPConn, number int)) *rawEngine {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &rawEngine{address: ln.Addr().String(), ln: ln}
	e.wg.Go(func() {
		for n := 0; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.conns = append(e.conns, c)
			e.mu.Unlock()
			e.wg.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn), n)
			})
		}
	})
	t.Cleanup(e.stop)
	return e
}

// accepted is how many connections there have been.
func (e *rawEngine) accepted() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.conns)
}

func (e *rawEngine) stop() {
	e.ln.Close()
	e.mu.Lock()
	for _, c := range e.conns {
		c.Close()
	}
	e.mu.Unlock()
	e.wg.Wait()
}

// answering is a serve that reads whole requests and writes answer to each.
func answering(answer string) func(*net.TCPConn, int) {
	return func(c *net.TCPConn, _ int) {
		r := bufio.NewReader(c)
		for {
			if _, err := readRequest(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

// readRequest reads a request and its body as net/http frames it.
func readRequest(r *bufio.Reader) (body []byte, err error) {
	q, err := http.ReadRequest(r)
	if err != nil {
		return nil, err
	}
	body, err = io.ReadAll(q.Body)
	return body, err
}

// legClient is one client connection's part of a leg.
type legClient struct {
	slot  clientSlot
	leg   leg
	times legTimes
	head  fasthttp.RequestHeader
	resp  fasthttp.ResponseHeader
	infos []string
	sink  sink
}

// inform implements informer.
func (c *legClient) inform(h *fasthttp.ResponseHeader) {
	c.infos = append(c.infos, strings.TrimSpace(string(h.Header())))
}

func newLegClient(method string) *legClient {
	c := &legClient{times: legTimes{Connect: 5 * time.Second, FirstByte: 20 * time.Second, Idle: 20 * time.Second}}
	c.request(method)
	return c
}

func (c *legClient) request(method string) {
	c.head.Reset()
	c.head.SetMethod(method)
	c.head.SetRequestURI("/v1/x?y=1")
	c.head.SetHost("engine.test")
	c.head.SetNoDefaultContentType(true)
}

// do is one whole exchange: the body, and how it ended.
func (c *legClient) do(p *pool, body []byte, stream requestBody) ([]byte, error) {
	if err := c.begin(p, body, stream); err != nil {
		return nil, err
	}
	return c.finish()
}

// begin is an exchange up to its head; on error the leg is closed.
func (c *legClient) begin(p *pool, body []byte, stream requestBody) error {
	c.infos = nil
	err := c.leg.open(p, &c.slot, &c.times, false)
	if err == nil {
		err = c.leg.roundTrip(&c.head, body, stream, &c.resp, c)
	}
	if err != nil {
		c.leg.close(false)
	}
	return err
}

// finish reads the body and closes the leg.
func (c *legClient) finish() ([]byte, error) {
	if b, ok := c.leg.complete(nil); ok {
		c.leg.close(true)
		return b, nil
	}
	c.sink.reset()
	n, err := c.leg.WriteTo(&c.sink)
	c.leg.close(err == nil)
	c.leg.forget()
	if n != int64(c.sink.Len()) {
		return nil, errors.New("WriteTo counts other bytes than it wrote")
	}
	return c.sink.Bytes(), err
}

// replaying is do as the core does it: once more after errStale.
func (c *legClient) replaying(p *pool, body []byte) (b []byte, replayed bool, err error) {
	b, err = c.do(p, body, nil)
	if err != errStale {
		return b, false, err
	}
	b, err = c.do(p, body, nil)
	return b, true, err
}

// sink is a flushWriter that remembers.
type sink struct {
	bytes.Buffer
	flushes int
	// failAfter bytes written, Write fails; 0: never. pause delays each Write.
	failAfter int
	wrote     func()
}

func (s *sink) reset() { s.Reset(); s.flushes = 0 }

func (s *sink) Flush() error {
	s.flushes++
	return nil
}

func (s *sink) Write(p []byte) (int, error) {
	if s.failAfter > 0 && s.Len()+len(p) > s.failAfter {
		return 0, io.ErrClosedPipe
	}
	n, err := s.Buffer.Write(p)
	if s.wrote != nil {
		s.wrote()
	}
	return n, err
}

// pieces is a requestBody that gives what next does.
type pieces struct {
	length int64
	next   func(p []byte) (int, error)
	broken chan struct{} // closed by interrupt
	once   sync.Once
}

func (b *pieces) Len() int64                 { return b.length }
func (b *pieces) Read(p []byte) (int, error) { return b.next(p) }
func (b *pieces) Whole() []byte              { return nil }
func (b *pieces) interrupt()                 { b.once.Do(func() { close(b.broken) }) }

// bodyOf is a body of size bytes that can be read as fast as it is asked for.
func bodyOf(length int64, r io.Reader) *pieces {
	b := &pieces{length: length, broken: make(chan struct{})}
	if r != nil {
		b.next = r.Read
	}
	return b
}

// pattern is n bytes that differ wherever they are looked at.
func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(2463534242)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

// eventually waits until f holds.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never happened that %s", what)
		}
	}
}
