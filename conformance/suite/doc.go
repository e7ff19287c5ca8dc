// Package suite runs the Gateway API's public conformance suite, unmodified,
// against the product on a cluster: `make conformance`.
//
//	GatewayClass status.supportedFeatures ─┐ must be equal, else nothing runs
//	translate.Features ────────────────────┘
//	        │ what the suite takes as claimed
//	        ▼
//	suite: core tests of the profiles, and the tests of all claimed features
//	        │
//	        ▼
//	report (YAML) ─► summary; red unless all of them passed
//
// What is claimed is said once, in pkg/translate; the GatewayClass carries it,
// and the suite reads it from there. The profiles are a flag of the suite, so a
// further one needs no code here.
//
// Without a cluster the package's other tests hold the claims against the list
// of the suite's tests: a feature that no test exercises must not look as if it
// had passed one.
package suite
