// Gateway is the data plane of FlexInfer Gateway: one process per gateway pod.
//
// Start-up: the flags and knobs are read; the admin port opens, with /readyz at
// 503; the first configuration is compiled and served; /readyz turns 200.
//
// With --controller (subscribe.go) configurations come over a stream (package
// publish), each is acknowledged, and what requests wait for is told back. The
// last good one is kept in the file named by --snapshot (lastgood.go) and served
// at the start, so that a restart without a controller serves. Private keys are
// in that file only where it is in memory.
//
// Without, the file named by --snapshot is watched (file.go); one that does not
// exist yet is waited for.
//
// What cannot be read or compiled is reported and the configuration in force
// stays. A resource that does not compile is left out alone. A port that cannot
// be bound is reported, tried again every few seconds, and keeps nothing else
// from serving.
//
// Shutdown: at SIGTERM or interrupt /readyz turns 503, new connections are still
// taken for --shutdown-drain-delay, then idle ones are closed and running
// exchanges have --graceful-shutdown-timeout to end. A second signal ends the
// process at once.
//
// It imports nothing of Kubernetes.
package main
