package fastproxy

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// upstreamOptions are the settings of connections to endpoints. The zero value
// of a member means its default.
type upstreamOptions struct {
	// ConnectTimeout bounds the making of a connection, a wait for one of
	// MaxOpen included; 0: 5 s.
	ConnectTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept; 0: 4 s, below the
	// 5 s at which uvicorn closes its side. A shorter "Keep-Alive: timeout"
	// of the endpoint wins.
	IdleTimeout time.Duration
	// MaxAge is how old a connection may be when it is kept again, less a
	// random tenth; 0: no limit.
	MaxAge time.Duration
	// MaxIdle bounds the unused connections of one endpoint; 0: 256.
	MaxIdle int
	// MaxOpen bounds all connections of one endpoint; 0: no limit.
	MaxOpen int
	// TunnelIdleTimeout ends a tunnel in which nothing moves; 0: never.
	TunnelIdleTimeout time.Duration
}

// withDefaults returns o with its zero members filled in.
func (o upstreamOptions) withDefaults() upstreamOptions {
	orInt(&o.ConnectTimeout, 5*time.Second)
	orInt(&o.IdleTimeout, 4*time.Second)
	orInt(&o.MaxIdle, 256)
	return o
}

// pool keeps the connections to one endpoint that may be used again, the most
// recently used first. All methods are safe for concurrent use; take and put
// cost one lock each and allocate nothing.
type pool struct {
	address string
	options upstreamOptions

	// dials and failures count attempts to connect and how many failed, reuses
	// the exchanges that began on a kept connection.
	dials, failures, reuses atomic.Uint64

	mu        sync.Mutex
	idle      []*upstreamConn // by idleSince, oldest first
	open      int             // connections that exist or are being made, idle ones included
	waiting   []chan *upstreamConn
	idleLimit int64 // nanoseconds
	reaper    *time.Timer
	reaping   bool // reaper is set
	closed    bool
	// suspect is until when connections are not kept, because the endpoint was
	// seen to send bytes that nobody asked for: what comes a moment after an
	// answer cannot be told from the next one.
	suspect int64
}

// newPool makes the pool of the endpoint at address ("ip:port" or "name:port").
func newPool(address string, o *upstreamOptions) *pool {
	p := &pool{address: address, options: o.withDefaults()}
	p.idleLimit = int64(p.options.IdleTimeout)
	return p
}

// counts returns how many connections exist and how many of them are unused.
func (p *pool) counts() (open, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open, len(p.idle)
}

// close ends the pool: unused connections are closed with FIN, the others when
// their exchange ends.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.closed = true
	p.open -= len(idle)
	if p.reaper != nil {
		p.reaper.Stop()
	}
	p.mu.Unlock()
	for _, u := range idle {
		u.closeIdle()
	}
}

// take returns the connection that was used last; nil: there is none that is
// young enough.
func (p *pool) take(now int64) *upstreamConn {
	p.mu.Lock()
	n := len(p.idle) - 1
	if n < 0 || now-p.idle[n].idleSince >= p.idleLimit {
		p.mu.Unlock()
		return nil
	}
	u := p.idle[n]
	p.idle[n] = nil
	p.idle = p.idle[:n]
	p.mu.Unlock()
	return u
}

// put keeps u for the next exchange, hands it to a leg that waits for one, or
// closes it where neither may be.
func (p *pool) put(u *upstreamConn, now int64) {
	u.reused = true
	u.idleSince = now
	p.mu.Lock()
	if p.closed || now < p.suspect || u.expires != 0 && now >= u.expires {
		p.mu.Unlock()
		u.closeIdle()
		p.release()
		return
	}
	if p.handOver(u) {
		p.mu.Unlock()
		return
	}
	if len(p.idle) >= p.options.MaxIdle {
		p.mu.Unlock()
		u.closeIdle()
		p.release()
		return
	}
	p.idle = append(p.idle, u)
	if !p.reaping {
		p.setReaper(p.idleLimit)
	}
	p.mu.Unlock()
}

// release says that a connection which take or reserve gave out is no more.
func (p *pool) release() {
	p.mu.Lock()
	p.open--
	if len(p.waiting) > 0 {
		p.open++ // the place goes on to the first that waits
		p.handOver(nil)
	}
	p.mu.Unlock()
}

// handOver gives u, or for nil the right to make a connection, to the leg that
// has waited longest; false: none waits. The lock is held.
func (p *pool) handOver(u *upstreamConn) bool {
	if len(p.waiting) == 0 {
		return false
	}
	w := p.waiting[0]
	p.waiting[0] = nil
	p.waiting = p.waiting[1:]
	w <- u
	return true
}

// reserve takes the right to make a connection; false: MaxOpen exist.
func (p *pool) reserve() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options.MaxOpen > 0 && p.open >= p.options.MaxOpen {
		return false
	}
	p.open++
	return true
}

// wait blocks until a connection is free (returned) or may be made (nil), in
// turn with others that wait, or until ctx ends.
func (p *pool) wait(ctx context.Context) (*upstreamConn, error) {
	p.mu.Lock()
	if p.open < p.options.MaxOpen {
		p.open++
		p.mu.Unlock()
		return nil, nil
	}
	w := make(chan *upstreamConn, 1)
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	select {
	case u := <-w:
		return u, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	for i := range p.waiting {
		if p.waiting[i] == w {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			p.mu.Unlock()
			return nil, ctx.Err()
		}
	}
	p.mu.Unlock()
	// It was handed over in the meantime: pass it on.
	if u := <-w; u != nil {
		p.put(u, u.idleSince)
	} else {
		p.release()
	}
	return nil, ctx.Err()
}

// suspicion is how long a pool keeps no connections after surplus bytes.
const suspicion = int64(time.Minute)

// sawSurplus notes that the endpoint sent bytes that nobody asked for.
func (p *pool) sawSurplus() {
	p.mu.Lock()
	p.suspect = monotonic() + suspicion
	p.mu.Unlock()
}

// limitIdle lowers the idle time to what the endpoint says it keeps itself,
// less a second for the way.
func (p *pool) limitIdle(d time.Duration) {
	limit := int64(max(d-time.Second, d/2))
	p.mu.Lock()
	p.idleLimit = min(p.idleLimit, limit)
	p.mu.Unlock()
}

// expiry returns when a connection made now is too old to be kept; 0: never.
func (p *pool) expiry(now int64) int64 {
	age := int64(p.options.MaxAge)
	if age == 0 {
		return 0
	}
	return now + age - rand.Int64N(age/10+1)
}

// setReaper runs reap after d nanoseconds. The lock is held.
func (p *pool) setReaper(d int64) {
	p.reaping = true
	if p.reaper == nil {
		p.reaper = time.AfterFunc(time.Duration(d), p.reap)
		return
	}
	p.reaper.Reset(time.Duration(d))
}

// reap closes the connections whose idle time is over and sets itself for the
// next one; without unused connections it rests.
func (p *pool) reap() {
	now := monotonic()
	p.mu.Lock()
	p.reaping = false
	if p.closed {
		p.mu.Unlock()
		return
	}
	n := 0
	for n < len(p.idle) && now-p.idle[n].idleSince >= p.idleLimit {
		n++
	}
	old := append([]*upstreamConn(nil), p.idle[:n]...)
	kept := copy(p.idle, p.idle[n:])
	clear(p.idle[kept:])
	p.idle = p.idle[:kept]
	if kept > 0 {
		p.setReaper(p.idle[0].idleSince + p.idleLimit - now)
	}
	p.mu.Unlock()
	for _, u := range old {
		u.closeIdle()
		p.release()
	}
}
