// Package e2e tests the programs as people run them: `controller standalone` and
// `gateway` as processes, simulated engines, real sockets on loopback, the official
// SDKs for Go and Python, and the Prometheus engine over scrapes of the gateway.
//
// It is a module of its own so that those dependencies stay out of the product's
// go.mod. TestMain builds the programs, with the race detector where E2E_RACE is
// -race; a race in a program fails the test that ran it. E2E_PYTHON names an
// interpreter that has python/requirements.txt; `make e2e` sets both.
package e2e
