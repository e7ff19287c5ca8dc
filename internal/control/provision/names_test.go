package provision

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestName(t *testing.T) {
	f := func(name, class, want string) {
		t.Helper()
		if got := Name(types.NamespacedName{Namespace: "ns", Name: name}, class); got != want {
			t.Errorf("%s of class %s: %q, want %q", name, class, got, want)
		}
	}
	f("inference", "flexinfer", "inference-d8f163e3")
	f("inference", "other", "inference-d9298a10")
	f("1st", "flexinfer", "gw-1st-e01ddf65-d8f163e3")
	f("a.b", "flexinfer", "a-b-2e7336dc-d8f163e3")
	f(strings.Repeat("a", 54), "flexinfer", strings.Repeat("a", 54)+"-d8f163e3")
}

// Whatever names a Gateway and a class have, the objects' name and the labels'
// values are valid, and no two are equal.
func TestNamesAreValidAndDistinct(t *testing.T) {
	long := strings.Repeat("abcdefghi.", 25) + "abc"
	names := []string{
		"a", "a-b", "a.b", "a--b", "1", "1a", "gw-1a", "gw-1", long, long[:252] + "d", "x" + long[1:],
		strings.Repeat("a", 54), strings.Repeat("a", 55), strings.Repeat("a", 63), strings.Repeat("-", 50),
		strings.Repeat("a", 62) + ".b", strings.Repeat("1.", 100) + "1",
	}
	seen := map[string]string{}
	for _, name := range names {
		for _, class := range names {
			gateway := types.NamespacedName{Namespace: "ns", Name: name}
			got := Name(gateway, class)
			if problems := validation.IsDNS1035Label(got); len(problems) > 0 && !strings.HasPrefix(name, "-") {
				t.Errorf("%s of %s: name %q: %s", name, class, got, problems)
			}
			if before, ok := seen[got]; ok {
				t.Errorf("%s of %s has the name of %s: %s", name, class, before, got)
			}
			seen[got] = name + " of " + class
			for key, value := range selector(gateway, class) {
				if problems := validation.IsValidLabelValue(value); len(problems) > 0 && !strings.HasPrefix(value, "-") {
					t.Errorf("label %s=%q: %s", key, value, problems)
				}
			}
		}
	}
	if labelValue(long) == labelValue(long[:252]+"d") {
		t.Error("two long names have the same label")
	}
}
