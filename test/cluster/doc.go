// Package cluster tests the installed product on a real Kubernetes: the one of
// KUBECONFIG, which is to have the Gateway API's CRDs, manifests/base and the
// image of cmd/enginesim, and whose load balancers' and pods' addresses can be
// reached from here. `make e2e-cluster` sees to all of that.
//
// Each test has a namespace of its own, made by newWorld, with Gateways, Models
// of simulated engines and routes, and the load of load_test.go. Nothing is
// mocked. No time gates a test, but waiting without end; lost requests do.
package cluster
