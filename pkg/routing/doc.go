// Package routing decides where requests go. Compile turns a Config (plain data)
// into a Snapshot that never changes; then, for each request:
//
//	Socket.Listener  host            -> CompiledListener
//	ResolveModel     body's model    -> the model that rules are matched with
//	Match            request         -> CompiledRule
//	PickBackend      weights         -> CompiledBackend (a Model, Service or group)
//	Decide           headers + Facts -> member, Target, reservation in a Lease
//
// and the Lease follows the exchange: Start, Report, Release.
//
// Nothing here does I/O, knows HTTP libraries or Kubernetes, reads a clock
// (times come in as nanoseconds) or logs. Keys are kept as hashes only.
//
// # Invariants
//
// A Snapshot and all that hangs on it is read-only, except Targets and
// BackendStates, which outlive it in a Registry and hold atomic counts. Parts
// that a Config shares with the one before are shared by identity.
//
// From Socket.Listener to Lease.Release nothing allocates, and the cost grows
// neither with listeners, hostnames, routes nor rules; picks that compare
// targets grow with the targets of one backend.
//
// A Lease gives back exactly what Decide and Start took: with no exchange in
// flight every count is zero.
//
// # Where the Gateway API leaves a choice
//
// Expressions rank after exact paths and before prefixes, the longer one first,
// and must match the whole path or value. Query parameters are compared after
// percent-decoding, "+" being itself, by their first occurrence; header fields
// by their first line. A group's member whose pods are all passed over counts as
// not Ready while another member can take the request.
//
// # Concurrency
//
// Everything reachable from a Snapshot is safe for concurrent use. A Lease, a
// Facts and a Decision belong to one exchange. Compile and Registry.Sweep are
// called by one goroutine, in the order: Compile, swap the pointer, Sweep.
//
// # Glossary
//
//   - Listener, Route, Rule, Match, Filter: as in the Gateway API. Compiled…
//     is the same in a Snapshot.
//   - BackendRef: a target as a rule writes it. Backend: what it resolves to, a
//     Model, a Service port or a Group (avoid: upstream, cluster).
//   - Group: a service label with its member Models (avoid: pool).
//   - Endpoint: one replica as the Config sends it. Target: an Endpoint, or a
//     Service that is dialled itself, with its counts (avoid: node, host).
//   - Ring, point: consistent hashing over targets or members. A point is one
//     of a target's many places on the ring (avoid: vnode, replica).
//   - Key: a request's routing key, hashed. Source: where it was found.
//   - Reservation: a least-loaded pick that has not started (avoid: slot).
//     Lease: what one exchange holds of the counts.
//   - Passed over: left out of picks for a while after failures (avoid: ejected,
//     broken).
//   - Config is what is sent, Snapshot what is served, Options the settings of
//     the process that a Snapshot is compiled with.
package routing
