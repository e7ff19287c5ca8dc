package routing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ringOf(ids ...string) *Ring {
	members := make([]RingMember, len(ids))
	for i, id := range ids {
		members[i].ID = id
	}
	return NewRing(members, DefaultVirtualNodes)
}

func podIDs(n int) []string {
	var ids []string
	for _, e := range pods(n) {
		ids = append(ids, e.Address)
	}
	return ids
}

func (r *Ring) owner(h uint64) string { return r.ids[r.Lookup(h)] }

func TestRingSpread(t *testing.T) {
	const keys = 100_000
	rnd := randomSource(t)
	r := ringOf(podIDs(16)...)
	counts := make([]int, r.Len())
	for range keys {
		counts[r.Lookup(rnd.Uint64())]++
	}
	ratio := float64(slices.Max(counts)) * 16 / keys
	t.Logf("max/mean over 16 pods: %.3f", ratio)
	if ratio > 1.25 {
		t.Errorf("max/mean = %.3f, want at most 1.25 (%v)", ratio, counts)
	}
}

func TestRingRemoveMovesOnlyThatPodsKeys(t *testing.T) {
	rnd := randomSource(t)
	ids := podIDs(16)
	all := ringOf(ids...)
	for gone := range ids {
		fewer := ringOf(slices.Delete(slices.Clone(ids), gone, gone+1)...)
		moved := 0
		for range 20_000 {
			h := rnd.Uint64()
			before, after := all.owner(h), fewer.owner(h)
			if before == ids[gone] {
				moved++
			} else if before != after {
				t.Fatalf("key %x moved from %s to %s though %s went", h, before, after, ids[gone])
			}
		}
		if moved == 0 {
			t.Errorf("%s had no keys", ids[gone])
		}
	}
}

func TestRingAddMovesItsShareToIt(t *testing.T) {
	const keys = 100_000
	rnd := randomSource(t)
	ids := podIDs(17)
	before, after := ringOf(ids[:16]...), ringOf(ids...)
	moved := 0
	for range keys {
		h := rnd.Uint64()
		was, is := before.owner(h), after.owner(h)
		if was == is {
			continue
		}
		moved++
		if is != ids[16] {
			t.Fatalf("key %x moved from %s to %s though %s came", h, was, is, ids[16])
		}
	}
	share := float64(moved) / keys * 17
	t.Logf("moved %.4f of the keys, %.2f times 1/(N+1)", float64(moved)/keys, share)
	if share < 0.7 || share > 1.3 {
		t.Errorf("%d of %d keys moved, want about 1/17", moved, keys)
	}
}

func TestRingOrderAndDuplicatesDoNotMatter(t *testing.T) {
	rnd := randomSource(t)
	ids := append(podIDs(40), "10.0.0.1:80", "10.0.0.1:800", "10.0.0.11:80", "10.0.0.1:8", "[fd00::1]:80")
	want := ringOf(ids...)
	for range 5 {
		shuffled := append(slices.Clone(ids), ids[:7]...)
		rnd.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if d := cmp.Diff(want, ringOf(shuffled...), cmp.AllowUnexported(Ring{})); d != "" {
			t.Fatalf("another order gives another ring:\n%s", d)
		}
	}
}

// The table pins the ring: another hash, encoding or rule would move every key
// of a fleet whose gateways are being updated.
func TestRingPinned(t *testing.T) {
	r := ringOf("10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000", "[fd00::1]:8000")
	got := map[string]string{}
	for h := range uint64(8) {
		got[fmt.Sprintf("%016x", h<<61)] = r.owner(h << 61)
	}
	want := map[string]string{
		"0000000000000000": "[fd00::1]:8000",
		"2000000000000000": "[fd00::1]:8000",
		"4000000000000000": "10.0.0.2:8000",
		"6000000000000000": "10.0.0.2:8000",
		"8000000000000000": "10.0.0.1:8000",
		"a000000000000000": "10.0.0.2:8000",
		"c000000000000000": "10.0.0.1:8000",
		"e000000000000000": "10.0.0.3:8000",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestRingLookupAgainstSearch(t *testing.T) {
	rnd := randomSource(t)
	f := func(n, virtualNodes int) {
		t.Helper()
		var members []RingMember
		for i, id := range podIDs(n) {
			members = append(members, RingMember{ID: id, Weight: 1 + i%3})
		}
		r := NewRing(members, virtualNodes)
		if !slices.IsSorted(r.points) {
			t.Fatalf("%d members: points are not sorted", n)
		}
		for i := range 2_000 {
			h := rnd.Uint64()
			if i%2 == 0 { // exactly on, just before and just behind a point
				h = r.points[rnd.IntN(len(r.points))] + uint64(rnd.IntN(3)) - 1
			}
			at := sort.Search(len(r.points), func(i int) bool { return r.points[i] >= h })
			if want := int(r.owners[at%len(r.points)]); r.Lookup(h) != want {
				t.Fatalf("%d members, key %x: got %d, want %d", n, h, r.Lookup(h), want)
			}
		}
	}
	f(1, 1)
	f(1, 160)
	f(2, 1)
	f(3, 160)
	f(100, 160)
	if got := ringOf().Lookup(7); got != -1 {
		t.Errorf("empty ring: got %d, want -1", got)
	}
}

func TestRingWeight(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	r := NewRing([]RingMember{{"a", 1}, {"b", 3}}, 1_000)
	counts := [2]int{}
	for range 100_000 {
		counts[r.Lookup(rnd.Uint64())]++
	}
	if share := float64(counts[1]) / 100_000; share < 0.70 || share > 0.80 {
		t.Errorf("weight 3 of 4 got %.3f of the keys", share)
	}
}
