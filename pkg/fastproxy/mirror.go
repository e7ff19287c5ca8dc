package fastproxy

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"flexinfer.ai/gateway/pkg/routing"
)

// mirrors sends copies of requests to backends whose answers are thrown away.
// A copy has a goroutine, a leg, a lease and memory of its own; when there are
// too many, or their bodies do not fit the budget, further ones are dropped.
// Nothing that happens to a copy reaches the exchange it was made from.
type mirrors struct {
	server *Server
	limit  int

	sent, dropped, failed atomic.Uint64

	mu      sync.Mutex
	running map[*mirrored]struct{}
	closed  bool
	done    sync.WaitGroup
}

// mirrored is one copy of a request.
type mirrored struct {
	header   fasthttp.RequestHeader
	body     *[]byte
	charged  int64
	times    legTimes
	slot     clientSlot // never a client's: fire cuts the copy at the end of the process
	lease    routing.Lease
	decision routing.Decision
	leg      leg
	answer   fasthttp.ResponseHeader
}

func newMirrors(s *Server) *mirrors {
	return &mirrors{server: s, limit: s.options.Limits.Mirrors, running: map[*mirrored]struct{}{}}
}

// mirrorsBody says whether x's body must be read whole because its rule or
// backendRef copies requests. A body that cannot be read whole (length unknown
// beforehand, or over the limit) is not copied, and neither is its request.
func (x *exchange) mirrorsBody() bool {
	n := x.req.body.Len()
	return x.hasMirrors() && n > 0 && n <= x.server.options.Limits.BodyBytes
}

func (x *exchange) hasMirrors() bool {
	return len(x.rule.Mirrors) > 0 || x.ref != nil && len(x.ref.Mirrors) > 0
}

// mirror copies the request to the rule's and the backendRef's mirrors by their
// shares. It is called once the outgoing head stands and the body was planned,
// and does not block.
func (x *exchange) mirror() {
	if !x.hasMirrors() || x.req.upgrade != nil {
		return
	}
	m := x.server.mirrors
	for i := range x.rule.Mirrors {
		m.copy(x, &x.rule.Mirrors[i])
	}
	for i := range x.ref.Mirrors {
		m.copy(x, &x.ref.Mirrors[i])
	}
}

// copy sends one copy of x to r's backend where the share has it so.
func (m *mirrors) copy(x *exchange, r *routing.Mirror) {
	if r.Backend == nil || r.Numerator < r.Denominator && rand.Int32N(r.Denominator) >= r.Numerator {
		return
	}
	if !x.whole.read && x.req.body.Len() != 0 || x.bodyFor(r.Backend) != nil {
		m.dropped.Add(1)
		return
	}
	c := m.begin(int64(len(x.whole.out)))
	if c == nil {
		m.dropped.Add(1)
		return
	}
	if !m.fill(c, x, r.Backend) {
		m.dropped.Add(1)
		m.end(c)
		return
	}
	m.sent.Add(1)
	go m.run(c)
}

// begin takes a place and n bytes of the budget; nil: there is no room.
func (m *mirrors) begin(n int64) *mirrored {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || len(m.running) >= m.limit || !m.server.bodies.take(n) {
		return nil
	}
	c := &mirrored{charged: n}
	m.running[c] = struct{}{}
	m.done.Add(1)
	return c
}

// end gives back what c holds.
func (m *mirrors) end(c *mirrored) {
	c.leg.close(false)
	c.lease.Release(unixNow(), routing.ResultNeutral)
	if c.body != nil {
		bodyBuffers.put(c.body)
	}
	m.server.bodies.release(c.charged)
	m.mu.Lock()
	delete(m.running, c)
	m.mu.Unlock()
	m.done.Done()
}

// fill makes c a copy of x for b; false: b has no endpoint, and a copy wakes
// nobody.
func (m *mirrors) fill(c *mirrored, x *exchange, b *routing.CompiledBackend) bool {
	x.req.header.CopyTo(&c.header)
	if len(x.whole.out) > 0 {
		c.body = bodyBuffers.get(len(x.whole.out))
		*c.body = append((*c.body)[:0], x.whole.out...)
	}
	c.times = m.times(x.rule)
	in := routing.RouteInput{
		Headers: &x.fields, Facts: &x.whole.facts, Options: m.server.routing,
		Now: unixNow(), Rand: rand.Uint64(),
	}
	b.Decide(&in, &c.lease, &c.decision)
	return c.decision.Target != nil
}

// times are the process's, and the rule's for one try.
func (m *mirrors) times(rule *routing.CompiledRule) legTimes {
	set := &m.server.options.Timeouts
	t := legTimes{Connect: set.Connect, FirstByte: set.FirstByte, Idle: set.Idle}
	if rule.BackendTimeout > 0 {
		t.Deadline = unixNow() + int64(rule.BackendTimeout)
	}
	return t
}

// run sends the copy and throws its answer away.
func (m *mirrors) run(c *mirrored) {
	defer m.end(c)
	defer func() {
		if p := recover(); p != nil {
			m.failed.Add(1)
			m.server.options.Logger.Error("a mirrored request panicked; the request itself is not affected", "panic", p)
		}
	}()
	if err := m.exchange(c); err != nil {
		m.failed.Add(1)
	}
}

func (m *mirrors) exchange(c *mirrored) error {
	if err := c.leg.open(poolOf(c.decision.Target), &c.slot, &c.times, false); err != nil {
		return err
	}
	if c.decision.Backend.BringsWork(c.header.Method()) {
		c.lease.Start()
	} else {
		c.lease.StartPoll()
	}
	var body []byte
	if c.body != nil {
		body = *c.body
	}
	if err := c.leg.roundTrip(&c.header, body, nil, &c.answer, nil); err != nil {
		return err
	}
	_, err := c.leg.WriteTo(discard{})
	c.leg.close(err == nil)
	return err
}

// close cuts the copies that run and waits for their ends.
func (m *mirrors) close() {
	m.mu.Lock()
	m.closed = true
	for c := range m.running {
		c.slot.fire()
	}
	m.mu.Unlock()
	m.done.Wait()
}

// discard is where mirrored answers go.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Flush() error                { return nil }
