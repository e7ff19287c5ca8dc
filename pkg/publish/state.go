package publish

import "time"

// Identity is who a gateway pod has proved to be. It is bound into the pod's
// client certificate.
type Identity struct {
	Gateway string // "namespace/name"
	Pod     string // the pod's name
}

// State is what the pods of one Gateway have made of what was published last.
type State struct {
	// Generation is the routing.Config.Generation published last, Version the
	// hash of its content; 0 and "" where nothing is published.
	Generation uint64
	Version    string
	// Pods are the connected ones, by name.
	Pods []PodState
}

// PodState is what one connected pod serves.
type PodState struct {
	Pod string
	// Generation and Version are of the Config that the pod acknowledged last;
	// 0 and "" until it has.
	Generation uint64
	Version    string
	// Refused are the resources of that Config that the pod could not use. It
	// serves everything else.
	Refused []Refusal
	// Error is why that Config is not, or not wholly, in force, "" if it is: a
	// port that cannot be bound, a Config that does not compile at all.
	Error string
	// Connected is since when the pod's stream has been open.
	Connected time.Time
}

// Refusal is one resource that a gateway pod could not use.
type Refusal struct {
	Key     string // as in routing.Config
	Version string // hash of the resource's content: a repaired one has another
	Reason  string
}

// Report is the demand that one gateway pod sees. Reports are levels, not
// events: each replaces the pod's former one.
type Report struct {
	Gateway string // "namespace/name"
	Pod     string
	// Models lists every Model with something to tell, in no order; empty where
	// nothing goes on.
	Models []ModelDemand
	// Gone says that the pod's stream has ended: what it carries from now on is
	// not known.
	Gone bool
}

// ModelDemand is what a gateway pod knows of one Model. Polls (GET requests and
// the like that no engine works on) count nowhere in it.
type ModelDemand struct {
	Model   string // "namespace/name"
	Waiting int    // requests in the cold-start queue
	Running int    // exchanges that an endpoint works on
	// LastActive is when it last had one of either, by this process's clock: ages
	// travel, times do not. Zero: not since the pod began.
	LastActive time.Time
}
