package routing

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// index is an immutable map from strings to values, laid out for few cache
// misses: a look-up touches one slot, the entry and the entry's key.
type index[V any] struct {
	// slots holds, at a hash's place or the next free one behind it, the upper
	// half of the hash and the entry's number plus one; 0 is free.
	slots   []uint64
	entries []indexEntry[V]
	longest int // the longest key
}

type indexEntry[V any] struct {
	key   string // cut from one string that holds all keys in order
	value V
}

// indexSeed keeps anybody from preparing keys that share a place.
var indexSeed = rand.Uint64()

func newIndex[V any](values map[string]V) index[V] {
	if len(values) == 0 {
		return index[V]{}
	}
	keys := slices.Sorted(maps.Keys(values))
	all := strings.Join(keys, "")
	size := 2
	for size < 2*len(keys) {
		size *= 2
	}
	x := index[V]{slots: make([]uint64, size), entries: make([]indexEntry[V], len(keys))}
	for i, key := range keys {
		x.longest = max(x.longest, len(key))
		x.entries[i] = indexEntry[V]{all[:len(key)], values[key]}
		all = all[len(key):]
		h := xxh3.HashStringSeed(key, indexSeed)
		at := h & uint64(size-1)
		for x.slots[at] != 0 {
			at = (at + 1) & uint64(size-1)
		}
		x.slots[at] = h>>32<<32 | uint64(i+1)
	}
	return x
}

// get returns the value of key, nil without one.
// Cost: O(len(key)), no allocation; a key longer than all known costs nothing.
func (x *index[V]) get(key []byte) *V {
	if len(x.slots) == 0 || len(key) > x.longest {
		return nil
	}
	h := xxh3.HashSeed(key, indexSeed)
	mask := uint64(len(x.slots) - 1)
	for at := h & mask; ; at = (at + 1) & mask {
		s := x.slots[at]
		if s == 0 {
			return nil
		}
		if s>>32 == h>>32 {
			if e := &x.entries[uint32(s)-1]; e.key == string(key) {
				return &e.value
			}
		}
	}
}
