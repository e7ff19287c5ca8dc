package enginesim

import (
	"math/rand/v2"
	"testing"
)

func TestCacheHitsLeadingBlocksOnly(t *testing.T) {
	c := newPrefixCache(10)
	if n := c.insert([]uint64{1, 2, 3}); n != 3 {
		t.Fatalf("inserted %d blocks, want 3", n)
	}
	c.release([]uint64{1, 2, 3})
	f := func(hashes []uint64, tokens, wantBlocks, wantTokens int) {
		t.Helper()
		blocks, cached := c.acquire(hashes, tokens, 4)
		if blocks != wantBlocks || cached != wantTokens {
			t.Errorf("acquire(%v, %d) = %d, %d, want %d, %d", hashes, tokens, blocks, cached, wantBlocks, wantTokens)
		}
		c.release(hashes[:blocks])
	}
	f([]uint64{1, 2, 3}, 14, 3, 12)
	f([]uint64{1, 2, 3}, 12, 3, 8) // the last token is always computed
	f([]uint64{1, 2, 9}, 13, 2, 8)
	f([]uint64{9, 2, 3}, 13, 0, 0)
	f(nil, 3, 0, 0)
	if got, want := c.stats().HitTokens, uint64(12+8+8); got != want {
		t.Errorf("hit tokens %d, want %d", got, want)
	}
}

func TestCacheEvictsLeastRecentlyUsedTailFirst(t *testing.T) {
	c := newPrefixCache(4)
	c.insert([]uint64{1, 2})
	c.release([]uint64{1, 2})
	c.insert([]uint64{11, 12})
	c.release([]uint64{11, 12})
	blocks, _ := c.acquire([]uint64{1, 2}, 8, 4) // used again: younger than 11, 12
	c.release([]uint64{1, 2}[:blocks])
	c.insert([]uint64{21})
	for _, want := range []struct {
		hash   uint64
		cached bool
	}{{1, true}, {2, true}, {11, true}, {12, false}, {21, true}} {
		if _, cached := c.blocks[want.hash]; cached != want.cached {
			t.Errorf("block %d cached: %v, want %v", want.hash, cached, want.cached)
		}
	}
	if got := c.stats(); got.Evicted != 1 || got.InUse != 1 || got.Blocks != 4 {
		t.Errorf("stats %+v", got)
	}
}

func TestCacheKeepsBlocksInUse(t *testing.T) {
	c := newPrefixCache(2)
	c.insert([]uint64{1, 2})
	if n := c.insert([]uint64{3, 4}); n != 0 {
		t.Errorf("inserted %d blocks into a cache that is all in use", n)
	}
	c.reset()
	if got := c.stats().Blocks; got != 2 {
		t.Errorf("reset left %d blocks in use, want 2", got)
	}
	c.release([]uint64{1, 2})
	c.reset()
	if got := c.stats(); got.Blocks != 0 || got.InUse != 0 {
		t.Errorf("after reset: %+v", got)
	}
}

// Whatever is acquired, inserted and released, the cache stays within its bound,
// its counts agree, and all of it is idle in the end.
func TestCacheInvariants(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c := newPrefixCache(16)
	var held [][]uint64
	for range 5000 {
		if len(held) > 0 && random.IntN(2) == 0 {
			i := random.IntN(len(held))
			c.release(held[i])
			held = append(held[:i], held[i+1:]...)
		} else {
			prompt := make([]uint64, 1+random.IntN(8))
			for i := range prompt {
				prompt[i] = uint64(i)<<8 | uint64(random.IntN(4)) // few values, so that prompts share
			}
			n, _ := c.acquire(prompt, 4*len(prompt), 4)
			n += c.insert(prompt[n:])
			held = append(held, prompt[:n])
		}
		if s := c.stats(); s.Blocks > s.Capacity || s.InUse > s.Blocks || s.Blocks-s.InUse != c.idle.Len() {
			t.Fatalf("inconsistent: %+v with %d idle", s, c.idle.Len())
		}
	}
	for _, hashes := range held {
		c.release(hashes)
	}
	if s := c.stats(); s.InUse != 0 {
		t.Errorf("%d blocks still in use", s.InUse)
	}
}
