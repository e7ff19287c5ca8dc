package routing

import "testing"

// settle ends an exchange that was picked at picked, without being a probe.
func (h *health) settle(now, picked int64, r Result) { h.report(now, picked, false, r, 0) }

func TestPassedOverAfterFailures(t *testing.T) {
	f := func(want bool, results ...Result) {
		t.Helper()
		var h health
		for _, r := range results {
			h.settle(startOfTime, startOfTime, r)
		}
		if got := !h.admits(startOfTime); got != want {
			t.Errorf("after %v: passed over = %v, want %v", results, got, want)
		}
	}
	f(false)
	f(true, ResultConnectFailed)
	f(true, ResultOK, ResultConnectFailed)
	for _, r := range []Result{ResultNoResponse, ResultFirstByteTimeout, ResultServerError} {
		f(false, r, r)
		f(true, r, r, r)
		f(false, r, r, ResultOK, r, r)
		f(true, r, r, ResultNeutral, r)
	}
	f(true, ResultNoResponse, ResultServerError, ResultFirstByteTimeout)
	f(false, ResultNeutral, ResultNeutral, ResultNeutral, ResultNeutral)
}

func TestResultOfStatus(t *testing.T) {
	f := func(code int, want Result) {
		t.Helper()
		if got := ResultOfStatus(code); got != want {
			t.Errorf("%d: got %d, want %d", code, got, want)
		}
	}
	for _, code := range []int{101, 200, 204, 304} {
		f(code, ResultOK)
	}
	for _, code := range []int{400, 404, 429, 499, 501, 505} {
		f(code, ResultNeutral)
	}
	for _, code := range []int{500, 502, 503, 504} {
		f(code, ResultServerError)
	}
}

func TestPassedOverPeriodsDoubleUpToThirtySeconds(t *testing.T) {
	var h health
	now := startOfTime
	h.settle(now, now, ResultConnectFailed)
	for _, seconds := range []int64{1, 2, 4, 8, 16, 30, 30, 30} {
		if h.admits(now + seconds*second - 1) {
			t.Fatalf("period of %d s: admitted before its end", seconds)
		}
		now += seconds * second
		if !h.admits(now) {
			t.Fatalf("period of %d s: not admitted at its end", seconds)
		}
		ok, probing := h.claim(now)
		if !ok || !probing {
			t.Fatalf("claim = %v, %v, want a probe", ok, probing)
		}
		// One failure of the probe is enough, whatever its kind.
		h.report(now, now, true, ResultServerError, 0)
	}
}

func TestPassedOverJitter(t *testing.T) {
	for _, rnd := range []uint64{0, 1, 12345, 1 << 40, ^uint64(0)} {
		var h health
		h.report(startOfTime, startOfTime, false, ResultConnectFailed, rnd)
		if h.admits(startOfTime + 8*second/10) {
			t.Errorf("rnd %d: the first period is shorter than 0.8 s", rnd)
		}
		if !h.admits(startOfTime + second) {
			t.Errorf("rnd %d: the first period is longer than 1 s", rnd)
		}
	}
}

func TestOneProbeAtATime(t *testing.T) {
	var h health
	h.settle(startOfTime, startOfTime, ResultConnectFailed)
	now := startOfTime + second
	if ok, probing := h.claim(now); !ok || !probing {
		t.Fatalf("first claim = %v, %v", ok, probing)
	}
	if h.admits(now) {
		t.Error("a second request may try while the first is trying")
	}
	if ok, _ := h.claim(now); ok {
		t.Error("a second request became the probe")
	}

	// A probe whose client left lets another one try.
	h.report(now, now, true, ResultNeutral, 0)
	if ok, probing := h.claim(now); !ok || !probing {
		t.Errorf("claim after a neutral probe = %v, %v", ok, probing)
	}
	// So does one that says nothing for its whole term.
	if h.admits(now + int64(probeTerm) - 1) {
		t.Error("admitted within the probe's term")
	}
	if ok, probing := h.claim(now + int64(probeTerm)); !ok || !probing {
		t.Errorf("claim after the probe's term = %v, %v", ok, probing)
	}
	// Success ends it, and the next period is the first one again.
	h.report(now, now, true, ResultOK, 0)
	if ok, probing := h.claim(now); !ok || probing {
		t.Errorf("claim of a healthy target = %v, %v", ok, probing)
	}
	h.settle(now, now, ResultConnectFailed)
	if !h.admits(now + second) {
		t.Error("the period after a recovery is longer than 1 s")
	}
}

func TestResultsFromBeforeAPeriodChangeNothing(t *testing.T) {
	var h health
	h.settle(startOfTime, startOfTime, ResultConnectFailed)
	for range 10 {
		h.settle(startOfTime+second/2, startOfTime-second, ResultServerError)
		h.settle(startOfTime+second/2, startOfTime-second, ResultConnectFailed)
		h.settle(startOfTime+second/2, startOfTime-second, ResultOK)
	}
	if h.admits(startOfTime + second/2) {
		t.Error("a success from before the period ended it")
	}
	if !h.admits(startOfTime + second) {
		t.Error("failures from before the period prolonged it")
	}
	// One that was picked within it, because all others were passed over too,
	// does end it.
	h.settle(startOfTime+second/2, startOfTime+1, ResultOK)
	if !h.admits(startOfTime + second/2) {
		t.Error("a success of a pick within the period did not end it")
	}
}
