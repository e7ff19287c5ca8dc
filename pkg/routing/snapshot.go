package routing

// Snapshot is a Config made ready to serve. It never changes and may be read
// from any goroutine; requests load the current one once. What has a life of
// its own hangs on it in Targets and BackendStates, which later Snapshots share.
type Snapshot struct {
	generation uint64
	version    string

	sockets  []*Socket
	byPort   map[uint16]*Socket
	backends []*CompiledBackend
	byKey    map[string]*CompiledBackend

	// What the next Compile may share.
	virtualNodes int
	registry     *Registry
	certificates []*compiledCertificate
	endpoints    []*compiledEndpoints
	routes       []*compiledRoute
	listeners    []*CompiledListener // by Key
}

// Generation is that of the Config.
func (s *Snapshot) Generation() uint64 { return s.generation }

// Version identifies the content: equal for equal Configs, whatever their
// Generation, on every process. 32 hexadecimal digits.
func (s *Snapshot) Version() string { return s.version }

// Sockets are the ports to serve, sorted.
func (s *Snapshot) Sockets() []*Socket { return s.sockets }

// Socket is the one of port, nil where there is none.
func (s *Snapshot) Socket(port uint16) *Socket { return s.byPort[port] }

// Backend is the one called key, nil where there is none.
func (s *Snapshot) Backend(key string) *CompiledBackend { return s.byKey[key] }

// Backends are all of them, sorted by Key.
func (s *Snapshot) Backends() []*CompiledBackend { return s.backends }

// entities are all that the snapshot names of a Registry.
func (s *Snapshot) entities() (map[*Target]struct{}, map[*BackendState]struct{}) {
	targets := map[*Target]struct{}{}
	states := map[*BackendState]struct{}{}
	if s == nil {
		return targets, states
	}
	for _, e := range s.endpoints {
		for _, t := range e.targets {
			targets[t] = struct{}{}
		}
	}
	for _, b := range s.backends {
		states[b.State] = struct{}{}
		if b.Service != nil {
			targets[b.Service] = struct{}{}
		}
	}
	return targets, states
}
