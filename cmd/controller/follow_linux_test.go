package main

import (
	"syscall"
	"testing"

	"flexinfer.ai/gateway/internal/testrig"
)

// TestFollowWithoutDescriptors: files that cannot be read for want of descriptors
// are no change: what was read last is served on, and they are read again.
func TestFollowWithoutDescriptors(t *testing.T) {
	f := newFollower(t, testrig.FreePort(t))
	told := map[bool]int{} // by gone
	f.report = func(_ finding, gone bool) { told[gone]++ }
	step := func(retry bool, found, gone int) {
		t.Helper()
		if again := f.follow() > 0; again != retry {
			t.Errorf("tried again: %v, want %v", again, retry)
		}
		if f.generation != 1 || len(f.served.Listeners) != 1 {
			t.Errorf("generation %d with %d listeners is served, want the first with its one", f.generation, len(f.served.Listeners))
		}
		if told[false] != found || told[true] != gone {
			t.Errorf("%d findings, %d gone, want %d and %d", told[false], told[true], found, gone)
		}
	}
	step(false, 0, 0)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
	defer restore()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 1, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	step(true, 1, 0)
	step(true, 1, 0)
	restore()
	step(false, 1, 1)
}
