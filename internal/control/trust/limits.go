package trust

import (
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Tokens that are put before the API server: for one peer, so that one bad
// client does not stand in the others' way, and altogether.
const (
	peerRate, peerBurst = rate.Limit(1), 10
	allRate, allBurst   = rate.Limit(50), 200
	maxPeers            = 4096
	peerTime            = time.Minute // after which an untouched peer's limit is full again
)

// limits are the rates at which tokens are reviewed.
type limits struct {
	mu    sync.Mutex
	all   *rate.Limiter
	peers map[string]*peerLimit
}

type peerLimit struct {
	*rate.Limiter
	used time.Time
}

func newLimits() *limits {
	return &limits{all: rate.NewLimiter(allRate, allBurst), peers: map[string]*peerLimit{}}
}

// allow takes one token of a peer's and of all peers' allowance.
func (l *limits) allow(peer string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.peers[peer]
	if p == nil {
		if len(l.peers) >= maxPeers {
			l.forget(now)
		}
		if len(l.peers) >= maxPeers {
			return l.all.AllowN(now, 1)
		}
		p = &peerLimit{Limiter: rate.NewLimiter(peerRate, peerBurst)}
		l.peers[peer] = p
	}
	p.used = now
	return p.AllowN(now, 1) && l.all.AllowN(now, 1)
}

func (l *limits) forget(now time.Time) {
	for peer, p := range l.peers {
		if now.Sub(p.used) > peerTime {
			delete(l.peers, peer)
		}
	}
}

// refusalLog logs refusals at a bounded rate.
type refusalLog struct {
	logger *slog.Logger

	mu      sync.Mutex
	window  time.Time
	lines   int
	dropped int
}

// maxRefusals is how many refusals are logged a minute.
const maxRefusals = 60

func (r *refusalLog) log(now time.Time, peer, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.window) >= time.Minute {
		if r.dropped > 0 {
			r.logger.Warn("more gateway pods' tokens were refused than are logged", "count", r.dropped)
		}
		r.window, r.lines, r.dropped = now, 0, 0
	}
	if r.lines++; r.lines > maxRefusals {
		r.dropped++
		return
	}
	r.logger.Warn("refused a gateway pod's token", "peer", peer, "reason", reason)
}
