// Package dataplane is what the programs that serve have in common: the flags
// that become fastproxy.Options, the life of a server that follows files, applying
// a Config without what cannot be served, and an end that loses no request.
//
// Flags come in three groups: where it listens, the limits and time-outs of
// fastproxy.Options, and the knobs of routing.Knobs, which are read from the
// environment too. The defaults shown by the help are the ones in force.
//
// Apply is called by one goroutine. Nothing here knows Kubernetes.
package dataplane
