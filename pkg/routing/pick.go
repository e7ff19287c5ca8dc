package routing

import "math/bits"

// leniency says which targets a pick may choose. Picks try the strictest first
// and end with any, so that neither passing over nor Exclude ever leaves a
// request without a target.
type leniency uint8

const (
	// strict: neither tried by this request nor passed over.
	strict leniency = iota
	// lenient: not tried by this request.
	lenient //nolint:unused // loops step over it
	// anyTarget: all.
	anyTarget
	numLeniencies
)

// picker is one request's choice among the targets of one backend.
type picker struct {
	targets []*Target
	state   *BackendState
	now     int64
	rand    uint64
	exclude []*Target
}

// allowed says whether t may be picked.
func (p *picker) allowed(t *Target, how leniency) bool {
	if how == strict && !t.health.admits(p.now) {
		return false
	}
	if how != anyTarget {
		for _, e := range p.exclude {
			if e == t {
				return false
			}
		}
	}
	return true
}

// leniency is the strictest under which some target is allowed.
func (p *picker) leniency() leniency {
	for how := strict; how < anyTarget; how++ {
		for _, t := range p.targets {
			if p.allowed(t, how) {
				return how
			}
		}
	}
	return anyTarget
}

// claim makes the choice of t final. ok is false where another request just
// became the one that tries a passed-over target.
func (p *picker) claim(t *Target, how leniency) (ok, probing bool) {
	if how != strict {
		return true, false
	}
	return t.health.claim(p.now)
}

// maxLostRaces bounds how often a pick starts over because others were quicker:
// each loss is another request's success.
const maxLostRaces = 1024

// roundRobin picks the first allowed target at or after the cursor.
func (p *picker) roundRobin() (t *Target, probing bool) {
	for range maxLostRaces {
		how := p.leniency()
		cursor := p.state.cursor.Load()
		at := p.firstAllowed(int(cursor)%len(p.targets), how)
		if at < 0 || !p.state.cursor.CompareAndSwap(cursor, uint32(at+1)) {
			continue
		}
		if ok, probing := p.claim(p.targets[at], how); ok {
			return p.targets[at], probing
		}
	}
	return p.targets[int(p.state.cursor.Add(1))%len(p.targets)], false
}

// firstAllowed is the first allowed index from start on, -1 without one.
func (p *picker) firstAllowed(start int, how leniency) int {
	for k := range p.targets {
		i := start + k
		if i >= len(p.targets) {
			i -= len(p.targets)
		}
		if p.allowed(p.targets[i], how) {
			return i
		}
	}
	return -1
}

// random picks an allowed target at random.
func (p *picker) random() (t *Target, probing bool) {
	rnd := p.rand
	for range maxLostRaces {
		how := p.leniency()
		at := -1
		for range 8 { // a passed-over target's share is spread over all others
			rnd = mix(rnd)
			hi, _ := bits.Mul64(rnd, uint64(len(p.targets)))
			if p.allowed(p.targets[hi], how) {
				at = int(hi)
				break
			}
		}
		if at < 0 {
			at = p.firstAllowed(int(rnd%uint64(len(p.targets))), how)
		}
		if at < 0 {
			continue
		}
		if ok, probing := p.claim(p.targets[at], how); ok {
			return p.targets[at], probing
		}
	}
	return p.targets[rnd%uint64(len(p.targets))], false
}

// mix is one step of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashed picks the owner of key hash h on ring, whose members are p.targets, or
// the next allowed one clockwise.
func (p *picker) hashed(ring *Ring, h uint64) (t *Target, probing bool) {
	first := ring.first(h)
	for range maxLostRaces {
		how := strict
		at := first
		if !p.allowed(p.targets[ring.owners[first]], strict) {
			// Only now is it worth to know whether any is allowed: without one
			// the walk would go all round.
			how = p.leniency()
			for range ring.owners {
				if p.allowed(p.targets[ring.owners[at]], how) {
					break
				}
				at = ring.after(at)
			}
		}
		t = p.targets[ring.owners[at]]
		if ok, probing := p.claim(t, how); ok {
			return t, probing
		}
	}
	return t, false
}

// leastLoaded picks the allowed target with the fewest active exchanges and
// reservations, ties round-robin. With reserve, the pick counts as load from
// the same step on: total goes up only if it is still what the pick saw.
func (p *picker) leastLoaded(reserve bool) (t *Target, probing bool) {
	for range maxLostRaces {
		how := p.leniency()
		cursor := p.state.cursor.Load()
		at, lowest := p.lowest(int(cursor)%len(p.targets), how)
		if at < 0 {
			continue
		}
		t = p.targets[at]
		if reserve {
			if !t.load.total.CompareAndSwap(lowest, lowest+1) {
				continue
			}
			p.state.cursor.Store(uint32(at + 1))
		} else if !p.state.cursor.CompareAndSwap(cursor, uint32(at+1)) {
			continue
		}
		ok, probing := p.claim(t, how)
		if ok {
			return t, probing
		}
		if reserve {
			t.load.total.Add(-1)
		}
	}
	t = p.targets[int(p.state.cursor.Add(1))%len(p.targets)]
	if reserve {
		t.load.total.Add(1)
	}
	return t, false
}

func (p *picker) lowest(start int, how leniency) (at int, lowest int64) {
	at = -1
	for k := range p.targets {
		i := start + k
		if i >= len(p.targets) {
			i -= len(p.targets)
		}
		t := p.targets[i]
		if n := t.load.total.Load(); (at < 0 || n < lowest) && p.allowed(t, how) {
			at, lowest = i, n
		}
	}
	return at, lowest
}
