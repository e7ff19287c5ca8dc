package control

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// rounds runs change in a bubble and returns when rounds began, and how old their
// first change was.
func rounds(t *testing.T, change func(*trigger)) (began, waited []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		tr := newTrigger()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go change(tr)
		for {
			first, ok := tr.wait(ctx)
			if !ok {
				return
			}
			began = append(began, time.Since(start))
			if !first.IsZero() {
				waited = append(waited, time.Since(first))
			}
		}
	})
	return began, waited
}

func TestTrigger(t *testing.T) {
	f := func(name string, change func(*trigger), want ...time.Duration) {
		t.Run(name, func(t *testing.T) {
			began, _ := rounds(t, change)
			if len(began) != len(want) {
				t.Fatalf("rounds at %v, want %v", began, want)
			}
			for i := range want {
				if began[i] != want[i] {
					t.Errorf("rounds at %v, want %v", began, want)
				}
			}
		})
	}
	f("none", func(*trigger) {})
	f("one", func(tr *trigger) { tr.fire() }, quiet)
	f("a burst is one round", func(tr *trigger) {
		for range 100 {
			tr.fire()
			time.Sleep(time.Millisecond)
		}
	}, 99*time.Millisecond+quiet)
	f("two, apart", func(tr *trigger) {
		tr.fire()
		time.Sleep(time.Second)
		tr.fire()
	}, quiet, time.Second+quiet)
	f("a status has time", func(tr *trigger) {
		tr.fireLater()
		time.Sleep(leisure / 2)
		tr.fireLater()
	}, leisure)
	f("a change takes a status along", func(tr *trigger) {
		tr.fireLater()
		time.Sleep(100 * time.Millisecond)
		tr.fire()
	}, 100*time.Millisecond+quiet)
	f("a status does not hold a change up", func(tr *trigger) {
		tr.fire()
		tr.fireLater()
	}, quiet)
}

// A round that takes long is followed by as long a rest.
func TestTriggerRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrigger()
		tr.fire()
		tr.wait(t.Context())
		time.Sleep(150 * time.Millisecond) // the round
		tr.rest(150 * time.Millisecond)
		ended := time.Now()
		tr.fire()
		tr.wait(t.Context())
		if rest := time.Since(ended); rest != 150*time.Millisecond {
			t.Errorf("rested %v, want 150ms", rest)
		}
		tr.rest(time.Minute)
		ended = time.Now()
		tr.fire()
		tr.wait(t.Context())
		if rest := time.Since(ended); rest != bound {
			t.Errorf("rested %v, want %v", rest, bound)
		}
	})
}

// Churn without a pause starves nobody: no change waits longer than the bound.
func TestTriggerUnderChurn(t *testing.T) {
	began, waited := rounds(t, func(tr *trigger) {
		for range 3000 {
			tr.fire()
			time.Sleep(3 * time.Millisecond)
		}
	})
	if want := int(9 * time.Second / (bound + 3*time.Millisecond)); len(began) < want {
		t.Errorf("%d rounds in 9 s of churn, want at least %d", len(began), want)
	}
	for i, w := range waited {
		if w > bound {
			t.Errorf("round %d: a change waited %v, want at most %v", i, w, bound)
		}
	}
}
