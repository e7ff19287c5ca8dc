package suite

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/conformance"
	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"

	"flexinfer.ai/gateway/pkg/translate"
)

// claimTimeout bounds how long a new installation may take to fill in the status
// of its GatewayClass.
const claimTimeout = time.Minute

// deleteTimeout bounds how long a namespace may take to go: until the gateway pods in
// it have drained, on a busy machine. The suite sets implementations no bound.
const deleteTimeout = 3 * time.Minute

var onCluster = flag.Bool("on-cluster", false, "run the suite against the cluster of KUBECONFIG; `make conformance` sets it up")

// implementation is what reports say of us; -version tells the build.
var implementation = confv1.Implementation{
	Organization: "FlexInfer",
	Project:      "flexinfer-gateway",
	URL:          "https://flexinfer.ai/gateway",
	Version:      "development",
	Contact:      []string{"https://flexinfer.ai/gateway/contact"},
}

// TestGatewayAPI runs the suite. Its flags are those of the suite; which tests
// run can be narrowed by -test.run TestGatewayAPI/REGEXP too.
func TestGatewayAPI(t *testing.T) {
	if !*onCluster {
		t.Skip("needs a cluster with the product: make conformance")
	}
	opts := conformance.DefaultOptions(t)
	complete(&opts.ConfigurableOptions)
	claimed := waitForClaim(t, opts.Client, opts.GatewayClassName)
	if opts.RunTest != "" {
		// The suite does not read the GatewayClass for a single test.
		opts.SupportedFeatures = append(opts.SupportedFeatures, featureNames(claimed)...)
	}
	if path := opts.ReportOutputPath; path != "" {
		// Cleanups run backwards: this one after the suite's, which writes the report.
		t.Cleanup(func() { judge(t, path, os.Stderr) })
	}
	opts.Hook = showProgress
	conformance.RunConformanceWithOptions(t, opts)
}

// showProgress tells on standard error of each test that has run, where the
// suite's own output is too long to be watched.
func showProgress(t *testing.T, test suite.ConformanceTest, _ *suite.ConformanceTestSuite) {
	switch {
	case t.Failed():
		fmt.Fprintln(os.Stderr, "FAIL", test.ShortName)
	case !t.Skipped():
		fmt.Fprintln(os.Stderr, "pass", test.ShortName)
	}
}

// complete fills in what neither flags nor an options file have set.
func complete(opts *suite.ConfigurableOptions) {
	if len(opts.ConformanceProfiles) == 0 {
		opts.ConformanceProfiles = []suite.ConformanceProfileName{suite.GatewayHTTPConformanceProfileName}
	}
	opts.TimeoutConfig.DeleteTimeout = max(opts.TimeoutConfig.DeleteTimeout, deleteTimeout)
	is := &opts.Implementation
	for _, field := range []struct {
		is *string
		by string
	}{
		{&is.Organization, implementation.Organization},
		{&is.Project, implementation.Project},
		{&is.URL, implementation.URL},
		{&is.Version, implementation.Version},
	} {
		if *field.is == "" {
			*field.is = field.by
		}
	}
	if len(is.Contact) == 0 {
		is.Contact = implementation.Contact
	}
}

// waitForClaim returns the features that the GatewayClass says are supported,
// once they are those of this source tree.
func waitForClaim(t *testing.T, c client.Client, class string) []string {
	ctx, cancel := context.WithTimeout(t.Context(), claimTimeout)
	defer cancel()
	want := translate.Features()
	for {
		// A read of its own time: the last one must tell what is wrong.
		got, err := readClaim(t.Context(), c, class)
		if err == nil {
			err = compareClaims(got, want)
		}
		if err == nil {
			return got
		}
		select {
		case <-ctx.Done():
			t.Fatalf("GatewayClass %s after %v: %v", class, claimTimeout, err)
		case <-time.After(time.Second):
		}
	}
}

func readClaim(ctx context.Context, c client.Client, class string) ([]string, error) {
	var obj gwapiv1.GatewayClass
	if err := c.Get(ctx, client.ObjectKey{Name: class}, &obj); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(obj.Status.SupportedFeatures))
	for _, f := range obj.Status.SupportedFeatures {
		names = append(names, string(f.Name))
	}
	return names, nil
}
