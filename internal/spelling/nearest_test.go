package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"routing", "route-priority", "service-labels"}
	f := func(word, want string) {
		t.Helper()
		if got := Nearest(word, known, 2); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	f("Routing", "routing")
	f("ruoting", "routing")
	f("rout", "")
	f("route_priority", "route-priority")
	f("service-label", "service-labels")
	f("routing", "routing")
	f("", "")
	f(strings.Repeat("routing", 1<<20), "")
	if got := Nearest("ab", []string{"abc", "abd"}, 2); got != "abc" {
		t.Errorf("of two equally near words: got %q, want the first", got)
	}
}
