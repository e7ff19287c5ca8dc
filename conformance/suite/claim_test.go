package suite

import (
	"slices"
	"testing"

	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/pkg/features"

	"flexinfer.ai/gateway/pkg/translate"
)

// TestClaims holds what pkg/translate claims against what the suite knows.
func TestClaims(t *testing.T) {
	claimed := translate.Features()
	if err := compareClaims(claimed, slices.Sorted(slices.Values(claimed))); err != nil {
		t.Error(err)
	}
	if len(claimed) > maxFeatures {
		t.Errorf("%d features are claimed, a GatewayClass can hold %d", len(claimed), maxFeatures)
	}
	for _, name := range claimed {
		if features.GetFeature(features.FeatureName(name)).Name == "" {
			t.Errorf("%s is no feature of this version of the Gateway API", name)
		}
	}
	if got := untested(claimed, tests.ConformanceTests); len(got) > 0 {
		t.Errorf("claimed, though no test of the suite shows it: %q", got)
	}
}

func TestCompareClaims(t *testing.T) {
	f := func(got, want []string, ok bool) {
		t.Helper()
		if err := compareClaims(got, want); (err == nil) != ok {
			t.Errorf("compareClaims(%q, %q) = %v", got, want, err)
		}
	}
	f([]string{"A", "B"}, []string{"A", "B"}, true)
	f([]string{"B", "A"}, []string{"A", "B"}, false)
	f([]string{"A"}, []string{"A", "B"}, false)
	f([]string{"A", "B"}, []string{"A"}, false)
	f(nil, []string{"A"}, false)
}
