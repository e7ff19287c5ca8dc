package routing

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// Ring spreads 64-bit key hashes over members so that a member's coming or
// going moves only its own share. It is immutable, safe for concurrent use, and
// the same on every process for the same members, whatever their order.
//
// Source: Karger et al. 1997, consistent hashing; points by XXH3-64, seed 0.
type Ring struct {
	ids    []string // sorted, each once
	points []uint64 // sorted
	owners []uint32 // owners[i] is the member of points[i], an index of ids
	// index[b] is the first point whose top bits are at least b: with about one
	// point a bucket, a look-up is one step into index and one or two in points.
	index []uint32
	shift uint
}

// RingMember is one member; its share grows with Weight.
type RingMember struct {
	ID     string
	Weight int // virtual nodes are multiplied by it; 0 counts as 1
}

// NewRing builds the ring of members with virtualNodes points for each unit of
// weight. Of members with one ID the first counts.
// Cost: O(points); 160,000 points take about 10 ms.
func NewRing(members []RingMember, virtualNodes int) *Ring {
	members = slices.Clone(members)
	slices.SortStableFunc(members, func(a, b RingMember) int { return strings.Compare(a.ID, b.ID) })
	members = slices.CompactFunc(members, func(a, b RingMember) bool { return a.ID == b.ID })

	r := &Ring{ids: make([]string, len(members))}
	total := 0
	for i, m := range members {
		r.ids[i] = m.ID
		total += max(m.Weight, 1) * virtualNodes
	}
	points := make([]ringPoint, 0, total)
	var buf []byte
	for i, m := range members {
		for v := range max(m.Weight, 1) * virtualNodes {
			buf = appendPointName(buf[:0], m.ID, uint32(v))
			points = append(points, ringPoint{xxh3.Hash(buf), uint32(i)})
		}
	}
	r.place(points)
	return r
}

type ringPoint struct {
	hash  uint64
	owner uint32
}

// appendPointName writes what a point's hash is taken of: the length of the ID
// in front keeps "10.0.0.1:80" from imitating a longer name.
func appendPointName(b []byte, id string, point uint32) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(id)))
	b = append(b, id...)
	return binary.LittleEndian.AppendUint32(b, point)
}

// place sorts points into buckets by their top bits, then each bucket, and
// keeps the bucket bounds as the index.
func (r *Ring) place(points []ringPoint) {
	width := bits.Len(uint(max(len(points), 2) - 1))
	r.shift = uint(64 - width)
	r.index = make([]uint32, 1<<width+1)
	for _, p := range points {
		r.index[p.hash>>r.shift+1]++
	}
	for b := 1; b < len(r.index); b++ {
		r.index[b] += r.index[b-1]
	}
	sorted := make([]ringPoint, len(points))
	next := slices.Clone(r.index)
	for _, p := range points {
		b := p.hash >> r.shift
		sorted[next[b]] = p
		next[b]++
	}
	r.points = make([]uint64, len(points))
	r.owners = make([]uint32, len(points))
	for b := range len(r.index) - 1 {
		bucket := sorted[r.index[b]:r.index[b+1]]
		// Buckets hold about one point; insertion sort beats a call to sort.
		for i := 1; i < len(bucket); i++ {
			for j := i; j > 0 && bucket[j].before(bucket[j-1]); j-- {
				bucket[j], bucket[j-1] = bucket[j-1], bucket[j]
			}
		}
	}
	for i, p := range sorted {
		r.points[i], r.owners[i] = p.hash, p.owner
	}
}

func (p ringPoint) before(q ringPoint) bool {
	return p.hash < q.hash || p.hash == q.hash && p.owner < q.owner
}

// Len is the number of members.
func (r *Ring) Len() int { return len(r.ids) }

// Lookup returns the member that owns key hash h: the one of the first point
// clockwise from h. Shape: any uint64 -> [0, Len()); -1 only for an empty Ring.
// The number is the member's place in the sorted order of IDs.
// Cost: O(1) expected, no allocation.
func (r *Ring) Lookup(h uint64) int {
	if len(r.points) == 0 {
		return -1
	}
	return int(r.owners[r.first(h)])
}

// first is the point of the look-up of h; the ring is not empty.
func (r *Ring) first(h uint64) int {
	i := int(r.index[h>>r.shift])
	for i < len(r.points) && r.points[i] < h {
		i++
	}
	if i == len(r.points) {
		return 0
	}
	return i
}

// after is the next point clockwise.
func (r *Ring) after(i int) int {
	if i++; i == len(r.points) {
		return 0
	}
	return i
}
