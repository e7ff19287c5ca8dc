package suite

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
)

// reportDir is where reports of releases lie.
const reportDir = "../reports"

// judge shows the report and fails where it is not that of a conformant
// implementation.
func judge(t *testing.T, path string, out io.Writer) {
	t.Helper()
	report, err := readReport(path)
	if err != nil {
		t.Errorf("no report: %v", err)
		return
	}
	fmt.Fprintf(out, "%s:\n", path)
	summarize(out, report)
	for _, s := range shortcomings(report) {
		fmt.Fprintln(out, "FAIL", s)
		t.Errorf("%s: %s", path, s)
	}
}

// TestReports reads the reports that are kept.
func TestReports(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(reportDir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		judge(t, path, io.Discard)
	}
}

func TestShortcomings(t *testing.T) {
	passed := confv1.Status{Result: confv1.Success, Statistics: confv1.Statistics{Passed: 1}}
	failed := confv1.Status{Result: confv1.Failure, Statistics: confv1.Statistics{Passed: 1, Failed: 1}, FailedTests: []string{"HTTPRouteWeight"}}
	partial := confv1.Status{Result: confv1.Partial, Statistics: confv1.Statistics{Passed: 1, Skipped: 1}}
	f := func(profiles []confv1.ProfileReport, want string) {
		t.Helper()
		got := strings.Join(shortcomings(&confv1.ConformanceReport{ProfileReports: profiles}), "\n")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(nil, "no profile")
	f([]confv1.ProfileReport{{Name: "A", Core: passed}}, "")
	f([]confv1.ProfileReport{{Name: "A", Core: passed, Extended: &confv1.ExtendedStatus{Status: passed}}}, "")
	f([]confv1.ProfileReport{{Name: "A", Core: failed}}, "HTTPRouteWeight")
	f([]confv1.ProfileReport{{Name: "A", Core: partial}}, "core")
	f([]confv1.ProfileReport{{Name: "A", Core: confv1.Status{Result: confv1.Success}}}, "core")
	f([]confv1.ProfileReport{{Name: "A", Core: passed, Extended: &confv1.ExtendedStatus{Status: failed}}}, "claimed")
}

// TestReadReport refuses what is no report.
func TestReadReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.yaml")
	if err := os.WriteFile(path, []byte("profiles: []\nwhat: this\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readReport(path); err == nil || !strings.Contains(err.Error(), "what") {
		t.Errorf("an unknown field: %v", err)
	}
}
