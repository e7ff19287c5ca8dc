package routing

// CompiledBackend is a Backend of a Snapshot with everything a pick looks up.
// It is immutable; what it counts is in State.
type CompiledBackend struct {
	Key             string
	Kind            BackendKind
	Namespace, Name string
	Identity        string // "Namespace/Name"
	Strategy        Strategy
	Priority        int
	ServedModelName string
	Aliases         []string
	DecodeRequests  bool
	Phase           Phase
	Serverless      *Serverless // nil: requests never wait
	// Members are a group's Models, sorted by name.
	Members []*CompiledBackend

	// State lives across Snapshots.
	State *BackendState
	// Service is the Service that is dialled where no endpoint fits; nil: none.
	Service *Target
	// Ready and Draining are the endpoints by state, sorted by address.
	Ready, Draining []*Target
	// NotReady is the number of endpoints that take no requests.
	NotReady int

	// ring is over Ready, over Draining while none is ready; nil where the
	// strategy has no keys. memberRing is over Members, in their order.
	ring, memberRing *Ring

	digest    digest
	endpoints *compiledEndpoints
}

// WakesOn says whether a request with this method may wake the backend while it
// is cold; false for one that is not serverless.
func (b *CompiledBackend) WakesOn(method []byte) bool {
	return b.Serverless != nil && b.BringsWork(method)
}

// BringsWork says whether a request with this method is work; polls are the
// others. It is known of backends that are not serverless too: they may become so
// while their exchanges run.
func (b *CompiledBackend) BringsWork(method []byte) bool {
	if b.Serverless == nil || len(b.Serverless.WakeMethods) == 0 {
		return string(method) == "POST"
	}
	for _, m := range b.Serverless.WakeMethods {
		if string(method) == m {
			return true
		}
	}
	return false
}

// NeedsBody says whether the body may decide the pick among the backend's
// targets or members.
func (b *CompiledBackend) NeedsBody(h Headers, o *Options) bool {
	if b.Kind == BackendGroup {
		mode := o.LabelGroupMode
		if len(b.Members) > 1 && (mode.usesPrefix() && PrefixKeyNeedsBody(h, &o.Keys) ||
			mode.usesSession() && SessionKeyNeedsBody(h, &o.Keys)) {
			return true
		}
		for _, m := range b.Members {
			if m.NeedsBody(h, o) {
				return true
			}
		}
		return false
	}
	switch b.Strategy {
	case StrategySession:
		return SessionKeyNeedsBody(h, &o.Keys)
	case StrategyPrefix:
		return PrefixKeyNeedsBody(h, &o.Keys)
	default:
		return false
	}
}
