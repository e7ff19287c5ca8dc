// Package publish is the stream between the controller and its gateway pods,
// both ends.
//
//	controller                                              gateway pod
//	routing.Config ─► Publisher ── resources that changed ─► Subscriber ─► Apply
//	State          ◄─    │      ◄── acknowledgement ───────      │
//	Demand(Report) ◄─────┘      ◄── demand ────────────────      └─ routing.Config, the last good one
//
// # The wire
//
// gRPC with messages in JSON (wire.go), compressed by zstd. A Config travels as
// its resources: kind, Key, version (a hash of the content) and content. The
// gateway says at the start which versions it holds, so a reconnect, a restart
// with a last good snapshot or another replica of the controller sends nothing
// twice; afterwards the controller knows what it sent. A change is one or more
// messages of which the last one carries the version of the whole: a gateway
// applies all of it or nothing, and checks that version against what it holds.
// A gateway that is slow gets the newest Config next, never every one between.
//
// # Replicas
//
// A gateway holds a stream to every replica of the controller. One of them is
// followed: its Config is applied. To all go acknowledgements and demand, so
// that the leader knows everything wherever the Config came from. Equal objects
// give equal versions in every replica. Replicas tell their addresses in the
// stream; the Service's name is only dialled while no stream is open. One that does
// not see what changes says so, and is not followed while another does.
//
// # Trust
//
// The controller serves TLS with a certificate of the installation's CA, for the
// name of its Service. A gateway has a client certificate made (Enroll) by
// showing its ServiceAccount token; its Gateway and pod are bound in there, and
// Subscribe takes them from nowhere else: a pod gets its own Gateway's Config.
// Certificates last an hour, and no stream outlives its certificate.
//
// Nothing here knows Kubernetes. Private keys travel only inside TLS; keys,
// tokens and contents are in no log, error or metric. Everything exported is
// safe for concurrent use.
package publish
