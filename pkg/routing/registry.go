package routing

import "sync"

// Hooks tie the data plane's own state (connection pools, metric handles) to
// the entities of a Registry. The functions may be nil. They are called one at
// a time, from Compile and Sweep, and must not call back into the Registry.
type Hooks struct {
	// Target and Backend return what becomes Attached, before anybody else
	// sees the entity.
	Target  func(*Target) any
	Backend func(*BackendState) any
	// TargetGone and BackendGone tell of an entity that no live Snapshot
	// names. Leases may still hold it.
	TargetGone  func(*Target)
	BackendGone func(*BackendState)
}

// Registry holds what outlives a Snapshot: Targets by address and pod UID,
// BackendStates by Key. Safe for concurrent use.
type Registry struct {
	hooks    Hooks
	mu       sync.Mutex
	targets  map[targetID]*Target
	backends map[string]*BackendState
}

type targetID struct {
	address, uid string
	service      bool
}

// NewRegistry returns an empty Registry.
func NewRegistry(h Hooks) *Registry {
	return &Registry{hooks: h, targets: map[targetID]*Target{}, backends: map[string]*BackendState{}}
}

func (r *Registry) target(id targetID) *Target {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.targets[id]
	if t == nil {
		t = &Target{Address: id.address, UID: id.uid, ServiceFallback: id.service}
		if r.hooks.Target != nil {
			t.Attached = r.hooks.Target(t)
		}
		r.targets[id] = t
	}
	return t
}

func (r *Registry) backend(b *Backend, cardinalityLimit int) *BackendState {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.backends[b.Key]
	if s == nil {
		s = newBackendState(b, cardinalityLimit)
		if r.hooks.Backend != nil {
			s.Attached = r.hooks.Backend(s)
		}
		r.backends[b.Key] = s
	}
	return s
}

// Sweep forgets every entity that live does not name; call it once live is the
// Snapshot that new requests load. Entities that leases still hold go on
// working. One that returns after a Sweep starts afresh.
// Cost: O(entities). Compile and Sweep belong to one goroutine: a Snapshot that
// was compiled but is not live would lose its entities.
func (r *Registry) Sweep(live *Snapshot) {
	targets, backends := live.entities()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, t := range r.targets {
		if _, ok := targets[t]; !ok {
			delete(r.targets, id)
			if r.hooks.TargetGone != nil {
				r.hooks.TargetGone(t)
			}
		}
	}
	for key, s := range r.backends {
		if _, ok := backends[s]; !ok {
			delete(r.backends, key)
			if r.hooks.BackendGone != nil {
				r.hooks.BackendGone(s)
			}
		}
	}
}
