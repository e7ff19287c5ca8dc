package suite

import (
	"fmt"
	"io"
	"os"
	"strings"

	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/yaml"
)

func readReport(path string) (*confv1.ConformanceReport, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var report confv1.ConformanceReport
	if err := yaml.UnmarshalStrict(data, &report); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &report, nil
}

// summarize writes a report for people.
func summarize(w io.Writer, r *confv1.ConformanceReport) {
	fmt.Fprintf(w, "Gateway API %s, %s channel, %s\n", r.GatewayAPIVersion, r.GatewayAPIChannel, r.Version)
	for _, p := range r.ProfileReports {
		fmt.Fprintf(w, "%-12s core     %s\n", p.Name, describeStatus(p.Core))
		if p.Extended == nil {
			continue
		}
		fmt.Fprintf(w, "%-12s extended %s, %d of %d features\n", p.Name, describeStatus(p.Extended.Status),
			len(p.Extended.SupportedFeatures), len(p.Extended.SupportedFeatures)+len(p.Extended.UnsupportedFeatures))
		fmt.Fprintf(w, "%-12s not claimed: %s\n", p.Name, strings.Join(p.Extended.UnsupportedFeatures, ", "))
	}
	if len(r.SucceededProvisionalTests) > 0 {
		fmt.Fprintf(w, "provisional tests passed: %s\n", strings.Join(r.SucceededProvisionalTests, ", "))
	}
}

func describeStatus(s confv1.Status) string {
	text := fmt.Sprintf("%s: %d passed, %d failed, %d skipped", s.Result, s.Passed, s.Failed, s.Skipped)
	if len(s.FailedTests) > 0 {
		text += " (failed: " + strings.Join(s.FailedTests, ", ") + ")"
	}
	if len(s.SkippedTests) > 0 {
		text += " (skipped: " + strings.Join(s.SkippedTests, ", ") + ")"
	}
	return text
}

// shortcomings are what keeps a report from being that of a conformant
// implementation.
func shortcomings(r *confv1.ConformanceReport) []string {
	var found []string
	if len(r.ProfileReports) == 0 {
		found = append(found, "no profile was tested")
	}
	for _, p := range r.ProfileReports {
		if p.Core.Result != confv1.Success || p.Core.Passed == 0 {
			found = append(found, fmt.Sprintf("%s: core tests: %s", p.Name, describeStatus(p.Core)))
		}
		if p.Extended != nil && p.Extended.Result != confv1.Success {
			found = append(found, fmt.Sprintf("%s: tests of claimed features: %s", p.Name, describeStatus(p.Extended.Status)))
		}
	}
	return found
}
