package translate

import "testing"

// A verdict is found once as long as it is used, and few are kept of many.
func TestVerdicts(t *testing.T) {
	v := newVerdicts[int, int](10)
	judged := 0
	of := func(key int) {
		t.Helper()
		if got := v.of(key, func() int { judged++; return key * key }); got != key*key {
			t.Errorf("%d: %d", key, got)
		}
	}
	for i := range 1000 {
		of(i)
		of(7)
	}
	if judged != 1000 {
		t.Errorf("judged %d times, want once for each of 1000", judged)
	}
	if n := len(v.current) + len(v.former); n > 20 {
		t.Errorf("%d verdicts are kept, want at most 20", n)
	}
}
