//go:build !race

package routing

import (
	"math/rand/v2"
	"testing"
)

// keyCorpus returns bodies of every kind, valid and not.
func keyCorpus() [][]byte {
	m := &bodyMaker{Rand: rand.New(rand.NewPCG(7, 7))}
	var bodies [][]byte
	for _, b := range fuzzBodies {
		bodies = append(bodies, []byte(b))
	}
	for range 500 {
		bodies = append(bodies, m.body())
	}
	return append(bodies, toolsBody(100<<10), imageBody(100<<10), cjkBody(20<<10), proseBody(20<<10, false, 4), []byte(nested(maxNesting, "[", "]")))
}

// allocHeaders gives one value for one name, without allocating as fieldLines
// does.
type allocHeaders struct {
	name  string
	value []byte
}

func (h *allocHeaders) Value(name string) []byte {
	if name == h.name {
		return h.value
	}
	return nil
}

// TestKeyAllocs holds 0 allocations over the whole corpus, with every source
// hit and missed.
func TestKeyAllocs(t *testing.T) {
	o := DefaultKeyOptions()
	bodies := keyCorpus()
	headers := []Headers{
		&allocHeaders{}, &allocHeaders{"X-Session-Id", []byte(" s ")}, &allocHeaders{"Thread-Id", []byte("t")},
		&allocHeaders{"X-Flexinfer-Cache-Key", []byte("tenant-a/doc-42")}, &allocHeaders{"X-Flexinfer-Cache-Key", []byte("bad key")},
	}
	form, contentType := audioForm(10<<10), []byte(audioFormType)
	var f Facts
	var malformed Malformed
	spliced := make([]byte, 0, 1<<20)
	found := 0
	all := func() {
		for _, body := range bodies {
			f.ParseJSON(body, &o)
			if _, ok := f.Model(); ok {
				found++
			}
			spliced = AppendModelSplice(spliced[:0], body, &f, "org/served")
			for _, h := range headers {
				if SessionKey(h, &f, &o).Valid() || SessionKeyNeedsBody(h, &o) {
					found++
				}
				if PrefixKey(h, &f, &o, "prod/llama-3", &malformed).Valid() || PrefixKeyNeedsBody(h, &o) {
					found++
				}
			}
		}
		if !f.ParseMultipart(contentType, form) {
			t.Fatal("the form is valid")
		}
	}
	if n := testing.AllocsPerRun(5, all); n != 0 {
		t.Errorf("%v allocations over %d bodies", n, len(bodies))
	}
	if found < len(bodies) {
		t.Errorf("only %d keys", found)
	}
}
