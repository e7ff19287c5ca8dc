package routing

import (
	"sync"
	"sync/atomic"
)

// Cardinality counts the distinct keys it has seen, up to a limit. It keeps
// hashes only. Safe for concurrent use.
type Cardinality struct {
	limit    int
	mu       sync.RWMutex
	seen     map[uint64]struct{}
	overflow atomic.Uint64
}

func newCardinality(limit int) *Cardinality {
	return &Cardinality{limit: limit, seen: make(map[uint64]struct{})}
}

// Add counts the key with hash h. A key that is known costs one look-up and no
// allocation; a new one that no longer fits counts as overflow each time it
// comes.
func (c *Cardinality) Add(h uint64) {
	c.mu.RLock()
	_, known := c.seen[h]
	full := len(c.seen) >= c.limit
	c.mu.RUnlock()
	if known {
		return
	}
	if !full {
		c.mu.Lock()
		if _, known = c.seen[h]; !known && len(c.seen) < c.limit {
			c.seen[h] = struct{}{}
			known = true
		}
		c.mu.Unlock()
	}
	if !known {
		c.overflow.Add(1)
	}
}

// Unique is the number of distinct keys seen, at most the limit. It is
// approximate in that two keys with one 64-bit hash count once.
func (c *Cardinality) Unique() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.seen)
}

// Overflow is how many times a new key did not fit.
func (c *Cardinality) Overflow() uint64 { return c.overflow.Load() }
