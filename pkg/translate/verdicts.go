package translate

import "sync"

// verdicts remembers what was found about texts that are costly to judge. What is
// found follows from the text alone, so that Translate stays a function of its
// arguments. It holds at most twice as many as most, the ones used last among
// them. Safe for concurrent use.
type verdicts[K comparable, V any] struct {
	most int

	mu              sync.Mutex
	current, former map[K]V
}

func newVerdicts[K comparable, V any](most int) *verdicts[K, V] {
	return &verdicts[K, V]{most: most, current: map[K]V{}}
}

// of is the verdict on key, found by judge if it is not known.
func (v *verdicts[K, V]) of(key K, judge func() V) V {
	v.mu.Lock()
	verdict, known := v.current[key]
	if !known {
		if verdict, known = v.former[key]; known {
			v.remember(key, verdict)
		}
	}
	v.mu.Unlock()
	if known {
		return verdict
	}
	verdict = judge()
	v.mu.Lock()
	v.remember(key, verdict)
	v.mu.Unlock()
	return verdict
}

// remember notes a verdict; v.mu is held.
func (v *verdicts[K, V]) remember(key K, verdict V) {
	if len(v.current) >= v.most {
		v.former, v.current = v.current, map[K]V{}
	}
	v.current[key] = verdict
}
