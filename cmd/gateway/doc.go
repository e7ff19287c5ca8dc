// Gateway is the data plane of FlexInfer Gateway: one process per gateway pod.
//
// Start-up: the flags and knobs are read; the admin port opens, with /readyz at
// 503; the snapshot file is read, compiled and served; /readyz turns 200. A file
// that does not exist yet is waited for.
//
// The file named by --snapshot holds a routing.Config as JSON: the last good
// configuration on local disk. It is watched; what cannot be read or compiled is
// reported and the configuration in force stays. A resource that does not compile
// is left out alone. A port that cannot be bound is reported, tried again every
// few seconds, and keeps nothing else from serving.
//
// Shutdown: at SIGTERM or interrupt /readyz turns 503, new connections are still
// taken for --shutdown-drain-delay, then idle ones are closed and running
// exchanges have --graceful-shutdown-timeout to end. A second signal ends the
// process at once.
//
// It imports nothing of Kubernetes.
package main
