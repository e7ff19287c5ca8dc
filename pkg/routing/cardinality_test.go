package routing

import (
	"sync"
	"testing"
)

func TestCardinality(t *testing.T) {
	s := newBackendState(&Backend{Key: "k"}, 3)
	c := s.Cardinality(StrategyPrefix, SourceCanonical)
	if c == nil || c != s.Cardinality(StrategyPrefix, SourceCanonical) || c == s.Cardinality(StrategySession, SourceCanonical) {
		t.Fatal("a pair has one tracker, another pair another one")
	}
	for _, h := range []uint64{1, 2, 1, 3, 3, 2} {
		c.Add(h)
	}
	if c.Unique() != 3 || c.Overflow() != 0 {
		t.Errorf("unique %d, overflow %d, want 3 and 0", c.Unique(), c.Overflow())
	}
	for _, h := range []uint64{4, 5, 1, 4} {
		c.Add(h)
	}
	if c.Unique() != 3 || c.Overflow() != 3 {
		t.Errorf("unique %d, overflow %d, want 3 and 3", c.Unique(), c.Overflow())
	}
	for _, none := range []*Cardinality{
		s.Cardinality(StrategyDefault, SourceCanonical), s.Cardinality(StrategyLeastLoaded, SourceNone), s.Cardinality(StrategyPrefix, SourceNone),
	} {
		if none != nil {
			t.Error("a tracker for what has no keys")
		}
	}
	var wg sync.WaitGroup
	big := newBackendState(&Backend{Key: "k"}, 1_000)
	for w := range 4 {
		wg.Go(func() {
			for i := range 2_000 {
				big.Cardinality(StrategySession, SourceSessionBody).Add(uint64(i*4+w) % 1_500)
			}
		})
	}
	wg.Wait()
	if c := big.Cardinality(StrategySession, SourceSessionBody); c.Unique() != 1_000 || c.Overflow() == 0 {
		t.Errorf("unique %d, overflow %d", c.Unique(), c.Overflow())
	}
}
