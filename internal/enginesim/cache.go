package enginesim

import (
	"container/list"
	"sync"
)

// prefixCache is a bounded table of block hashes, as a paged KV cache keeps it:
// a block in use by a sequence has references and stays; one without references
// stays findable until its room is needed, least recently used first.
// Cost: O(1) per block. Safe for concurrent use.
type prefixCache struct {
	mu       sync.Mutex
	capacity int
	blocks   map[uint64]*cacheBlock
	idle     *list.List // of *cacheBlock without references, next to evict in front
	inUse    int
	evicted  uint64
	queries  uint64 // tokens looked up
	hits     uint64 // tokens found
}

type cacheBlock struct {
	hash       uint64
	references int
	position   *list.Element // in idle; nil while referenced
}

func newPrefixCache(capacity int) *prefixCache {
	return &prefixCache{capacity: capacity, blocks: make(map[uint64]*cacheBlock), idle: list.New()}
}

// acquire takes a reference on the leading blocks that are cached and returns how
// many those are. tokens and blockSize only feed the hit statistics, which count
// tokens; the last token of a prompt is always computed, so a prompt that is
// cached whole counts one block less (the second result is in tokens).
func (c *prefixCache) acquire(hashes []uint64, tokens, blockSize int) (blocks, cachedTokens int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, hash := range hashes {
		b := c.blocks[hash]
		if b == nil {
			break
		}
		c.reference(b)
		blocks++
	}
	cachedTokens = blocks * blockSize
	if cachedTokens > 0 && cachedTokens >= tokens {
		cachedTokens -= blockSize
	}
	c.queries += uint64(tokens)
	c.hits += uint64(cachedTokens)
	return blocks, cachedTokens
}

// insert adds blocks, each with a reference, evicting idle ones for them. It
// stops at the first that finds no room and returns how many the caller now holds.
func (c *prefixCache) insert(hashes []uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, hash := range hashes {
		b := c.blocks[hash]
		if b == nil {
			if len(c.blocks) >= c.capacity && !c.evict() {
				return i
			}
			b = &cacheBlock{hash: hash}
			c.blocks[hash] = b
		}
		c.reference(b)
	}
	return len(hashes)
}

// release gives the references back, last block first, so that the tail of a
// prompt is evicted before the head that other prompts may share.
func (c *prefixCache) release(hashes []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(hashes) - 1; i >= 0; i-- {
		b := c.blocks[hashes[i]]
		if b.references--; b.references == 0 {
			c.inUse--
			b.position = c.idle.PushBack(b)
		}
	}
}

// reset forgets every idle block; blocks held by running sequences stay, since
// they will be released.
func (c *prefixCache) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.evict() {
	}
}

// CacheStats describes the prefix cache at one moment.
type CacheStats struct {
	Capacity      int    `json:"capacity_blocks"`
	Blocks        int    `json:"cached_blocks"`
	InUse         int    `json:"in_use_blocks"`
	Evicted       uint64 `json:"evicted_blocks"`
	QueriedTokens uint64 `json:"queried_tokens"`
	HitTokens     uint64 `json:"hit_tokens"`
}

func (c *prefixCache) stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return CacheStats{
		Capacity: c.capacity, Blocks: len(c.blocks), InUse: c.inUse,
		Evicted: c.evicted, QueriedTokens: c.queries, HitTokens: c.hits,
	}
}

func (c *prefixCache) reference(b *cacheBlock) {
	if b.references == 0 {
		c.inUse++
		if b.position != nil {
			c.idle.Remove(b.position)
			b.position = nil
		}
	}
	b.references++
}

func (c *prefixCache) evict() bool {
	oldest := c.idle.Front()
	if oldest == nil {
		return false
	}
	b := c.idle.Remove(oldest).(*cacheBlock)
	delete(c.blocks, b.hash)
	c.evicted++
	return true
}
