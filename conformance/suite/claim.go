package suite

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// maxFeatures bounds status.supportedFeatures of a GatewayClass (Gateway API).
const maxFeatures = 64

// compareClaims tells how what a GatewayClass says differs from what is to be
// claimed, in its order too.
func compareClaims(got, want []string) error {
	if slices.Equal(got, want) {
		return nil
	}
	missing, extra := without(want, got), without(got, want)
	if len(missing) == 0 && len(extra) == 0 {
		return fmt.Errorf("status.supportedFeatures are not sorted by name, each once: %s", strings.Join(got, ", "))
	}
	return fmt.Errorf("status.supportedFeatures lack %q and have %q too many: run the controller of this source tree", missing, extra)
}

// without are the names of one list that another one lacks.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(other, name) })
}

func featureNames(names []string) []features.FeatureName {
	list := make([]features.FeatureName, len(names))
	for i, n := range names {
		list[i] = features.FeatureName(n)
	}
	return list
}

// untested are the names that no test of the suite exercises.
func untested(names []string, tests []suite.ConformanceTest) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(tests, func(t suite.ConformanceTest) bool {
			return slices.Contains(t.Features, features.FeatureName(name))
		})
	})
}
