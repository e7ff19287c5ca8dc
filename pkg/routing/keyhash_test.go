package routing

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
)

// TestPartHasher writes parts in pieces of every size and compares with one
// hash over what they should come to.
func TestPartHasher(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m := &bodyMaker{Rand: rand.New(rand.NewPCG(seed, 0))}
	var p partHasher
	for range 2000 {
		p.reset()
		var want oracleParts
		for range m.IntN(5) {
			var part bytes.Buffer
			for range m.IntN(6) {
				piece := strings.Repeat("x", oneOf(m, 0, 1, 9, 100, 1000, 1015, 1023, 1024, 1025, 3000)+m.IntN(3))
				part.WriteString(piece)
				switch m.IntN(3) {
				case 0:
					p.write([]byte(piece))
				case 1:
					p.writeString(piece)
				case 2:
					p.writeText(rawText(piece), m.chance(2))
				}
				if m.chance(2) {
					part.WriteString("😀")
					p.writeText(rawText(`\ud83d\ude00`), false)
				}
			}
			tag := byte('a' + m.IntN(3))
			p.end(tag)
			want.part(tag, part.String())
		}
		if got, want := p.sum(), xxh3.Hash(want.Bytes()); got != want {
			t.Fatalf("sum = %x, want %x", got, want)
		}
		if p.sum() != p.sum() {
			t.Fatal("sum changes the state")
		}
	}
}

// TestPartsAreUnambiguous: the same bytes cut into parts elsewhere, or as
// another part, are another key.
func TestPartsAreUnambiguous(t *testing.T) {
	seen := map[uint64]string{}
	add := func(parts ...string) {
		t.Helper()
		var p partHasher
		for _, part := range parts {
			p.writeString(part[1:])
			p.end(part[0])
		}
		name := strings.Join(parts, "|")
		if other, ok := seen[p.sum()]; ok {
			t.Errorf("%q and %q give one key", name, other)
		}
		seen[p.sum()] = name
	}
	add()
	add("t")
	add("tab", "tc")
	add("ta", "tbc")
	add("tabc")
	add("rabc")
	add("tabc", "t")
	add("t", "tabc")
	add("ta", "tb", "tc")
	add("tab\x00\x00\x00\x00\x00\x00\x00\x00", "tc")
	add("tab\x02\x00\x00\x00\x00\x00\x00\x00tc")
}
