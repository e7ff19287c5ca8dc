package routing

import "time"

// CompiledRule is one rule of a route. It is immutable.
type CompiledRule struct {
	Route string // the route's Key
	Name  string
	Index int // position in the route
	// Filters are the rule's filters as written, the ones below included.
	Filters  []Filter
	Redirect *RedirectFilter // nil: none
	Rewrite  *RewriteFilter  // nil: none
	CORS     *CORSFilter     // nil: none
	Mirrors  []Mirror

	// Fault, if not 0, is the status that answers every request.
	Fault          int
	RequestTimeout time.Duration // 0: none
	BackendTimeout time.Duration // 0: none
	Retry          *Retry        // nil: no retries were asked for

	// Backends are those of a weight over 0.
	Backends    []WeightedBackend
	totalWeight uint64
}

// Mirror is where a share of a rule's requests is copied to.
type Mirror struct {
	Backend                *CompiledBackend
	Numerator, Denominator int32
}

// WeightedBackend is one target of a rule.
type WeightedBackend struct {
	// Backend is nil where the reference could not be resolved: 500.
	Backend *CompiledBackend
	// Filters apply after the choice; Mirrors are resolved from them.
	Filters []Filter
	Mirrors []Mirror
	// upTo is the sum of the weights up to and including this one.
	upTo uint64
}

// PickBackend chooses by weight with the uniform random number rnd; nil: the
// rule has no backend that could get a request (500).
// Cost: O(log backends), no allocation.
func (r *CompiledRule) PickBackend(rnd uint32) *WeightedBackend {
	if r.totalWeight == 0 {
		return nil
	}
	point := uint64(rnd) * r.totalWeight >> 32
	lo, hi := 0, len(r.Backends)-1
	for lo < hi {
		mid := (lo + hi) / 2
		if point < r.Backends[mid].upTo {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return &r.Backends[lo]
}
