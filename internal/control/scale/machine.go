package scale

import (
	"slices"
	"time"
)

// Model is what deciding about one serverless Model needs.
type Model struct {
	Key         string // "namespace/name"
	MinReplicas int32  // what an idle Model keeps
	// IdleTimeout is how long after the last request the Model goes down to
	// MinReplicas; 0: never.
	IdleTimeout time.Duration
	Target      Target
	// Gateways are those whose pods carry the Model's requests, as
	// "namespace/name". What other Gateways' pods report about it is ignored.
	Gateways []string
	// Held: somebody else's phase says that waking the Model is of no use.
	Held bool
	// LastActive is status.lastActiveTime as last observed.
	LastActive time.Time
	// Generation is the object's; a new one ends a back-off.
	Generation int64
}

// Target is a workload with a scale subresource.
type Target struct{ APIVersion, Kind, Namespace, Name string }

// World is what the API server tells: every serverless Model, and by Gateway
// the names of its pods that exist, ready or not, draining ones included.
type World struct {
	Models []Model
	Pods   map[string][]string
}

// Demand is what one gateway pod says about one Model.
type Demand struct {
	Model            string // "namespace/name"
	Waiting, Running int    // requests
	LastActive       time.Time
}

// Timing is how often things happen; see DefaultTiming.
type Timing struct {
	Touch      time.Duration // between two writes of one Model's lastActiveTime
	Recheck    time.Duration // between two looks at the target of a Model that waits
	Look       time.Duration // between two looks at a Model that sleeps, at most
	Race       time.Duration // how long after a scale-down activity undoes it
	MinIdle    time.Duration // the least idle time: longer than demand takes to be heard of
	BackoffMin time.Duration
	BackoffMax time.Duration
}

// DefaultTiming suits a cluster.
func DefaultTiming() Timing {
	return Timing{
		Touch: 5 * time.Second, Recheck: 5 * time.Second, Look: 5 * time.Minute,
		Race: 10 * time.Second, MinIdle: 5 * time.Second, BackoffMin: time.Second, BackoffMax: time.Minute,
	}
}

// Machine decides when Models wake and sleep. It holds no clock, client or
// goroutine: times come in, Actions go out, their Outcomes come back in. Not
// safe for concurrent use; times passed must not go back.
type Machine struct {
	timing   Timing
	models   map[string]*modelState
	gateways map[string]*gatewayState
	keys     []string // of models, sorted
	turn     int      // the index in keys of the Model that is next in turn
}

// NewMachine starts without any knowledge: nothing sleeps before a World and
// the pods' reports have been there for a whole idle time.
func NewMachine(t Timing) *Machine {
	return &Machine{timing: t, models: map[string]*modelState{}, gateways: map[string]*gatewayState{}}
}

// gatewayState is one Gateway's pods.
type gatewayState struct{ pods map[string]*podState }

// podState is one gateway pod.
type podState struct {
	exists bool
	since  time.Time         // when the first report of its connection came; zero: out of touch
	demand map[string]Demand // by Model, as last reported, also by a pod that is out of touch
}

type podKey struct{ gateway, pod string }

// modelState is one Model's standing.
type modelState struct {
	Model
	since              time.Time            // when it, or what may carry its requests, was first seen
	former             map[string]time.Time // Gateways that no longer name it, until when they still count
	load               map[podKey]Demand    // pods with requests that wait or run
	active             time.Time            // last activity, by the machine's time
	seen               time.Time            // newest lastActiveTime that was written, by anybody
	busy               bool                 // an action is under way
	looked             bool                 // its target has been looked at
	asleep             bool                 // its target was at the floor when last looked at
	upAt               time.Time            // since when its target has been above the floor without a request
	sleptAt            time.Time            // when we scaled it down
	stir               bool                 // there was activity since the action under way began
	undo               bool                 // activity crossed a scale-down: wake, whether or not a request waits
	wake, sleep, touch retry
}

// retry is when an action may be taken again.
type retry struct {
	at    time.Time
	fails int
}

func (r *retry) failed(now time.Time, t Timing) {
	wait := t.BackoffMax
	if r.fails < 16 {
		wait = min(wait, t.BackoffMin<<r.fails)
	}
	r.fails++
	r.at = now.Add(wait)
}

func (r *retry) succeeded(next time.Time) { r.fails, r.at = 0, next }

// SetWorld takes over what the API server tells now.
func (m *Machine) SetWorld(w World, now time.Time) {
	m.setPods(w.Pods, now)
	current := make(map[string]bool, len(w.Models))
	for _, model := range w.Models {
		current[model.Key] = true
		m.setModel(model, now)
	}
	for key := range m.models {
		if !current[key] {
			delete(m.models, key)
		}
	}
	m.keys = m.keys[:0]
	for key := range m.models {
		m.keys = append(m.keys, key)
	}
	slices.Sort(m.keys)
}

func (m *Machine) setModel(model Model, now time.Time) {
	s := m.models[model.Key]
	if s == nil {
		s = &modelState{since: now, former: map[string]time.Time{}, load: map[podKey]Demand{}, active: earlier(model.LastActive, now)}
		m.models[model.Key] = s
	} else if model.LastActive.After(s.seen) {
		m.heardElsewhere(s, model.LastActive, now)
	}
	s.seen = later(s.seen, model.LastActive)
	if model.Generation != s.Generation || model.Target != s.Target {
		s.wake, s.sleep = retry{}, retry{}
		s.looked = false
	}
	if model.IdleTimeout > 0 {
		model.IdleTimeout = max(model.IdleTimeout, m.timing.MinIdle)
	}
	for _, g := range s.Gateways {
		if !slices.Contains(model.Gateways, g) {
			s.former[g] = now.Add(model.IdleTimeout)
		}
	}
	added := slices.ContainsFunc(model.Gateways, func(g string) bool { return !slices.Contains(s.Gateways, g) })
	s.Model = model
	if !added {
		return
	}
	s.since = now
	for _, g := range model.Gateways {
		delete(s.former, g)
		if gw := m.gateways[g]; gw != nil {
			for name, pod := range gw.pods {
				m.hear(s, podKey{g, name}, pod.demand[model.Key], now)
			}
		}
	}
}

func (m *Machine) setPods(pods map[string][]string, now time.Time) {
	for g, names := range pods {
		for _, name := range names {
			m.pod(g, name).exists = true
		}
	}
	for g, gw := range m.gateways {
		for name, pod := range gw.pods {
			pod.exists = slices.Contains(pods[g], name)
			m.forgetIfGone(g, name, now)
		}
	}
}

func (m *Machine) pod(gateway, name string) *podState {
	gw := m.gateways[gateway]
	if gw == nil {
		gw = &gatewayState{pods: map[string]*podState{}}
		m.gateways[gateway] = gw
	}
	pod := gw.pods[name]
	if pod == nil {
		pod = &podState{}
		gw.pods[name] = pod
	}
	return pod
}

// forgetIfGone drops a pod that neither exists nor reports. It was out of touch
// before it went, so what it may have carried counts as carried until now.
func (m *Machine) forgetIfGone(gateway, name string, now time.Time) {
	gw := m.gateways[gateway]
	if pod := gw.pods[name]; pod.exists || !pod.since.IsZero() {
		return
	}
	delete(gw.pods, name)
	if len(gw.pods) == 0 {
		delete(m.gateways, gateway)
	}
	for _, s := range m.models {
		if s.concerns(gateway) {
			s.since = now
			delete(s.load, podKey{gateway, name})
		}
	}
}

// slack is how far a pod's LastActive must move to be news: times of other clocks
// arrive as ages, and seem to move a little with every report.
const slack = 2 * time.Second

// Report takes what a pod says of all Models that it has demand for; Models
// that it does not name have none.
func (m *Machine) Report(gateway, name string, demand []Demand, now time.Time) {
	pod := m.pod(gateway, name)
	first := pod.since.IsZero()
	if first {
		pod.since = now
	}
	old := pod.demand
	pod.demand = make(map[string]Demand, len(demand))
	for _, d := range demand {
		s, before := m.models[d.Model], old[d.Model].LastActive
		if !before.IsZero() && !d.LastActive.After(before.Add(slack)) {
			if s != nil && s.concerns(gateway) {
				s.active = later(s.active, earlier(d.LastActive, now))
			}
			d.LastActive = before
		}
		pod.demand[d.Model] = d
	}
	for key, before := range old {
		if _, named := pod.demand[key]; !named && m.models[key] != nil {
			pod.demand[key] = Demand{Model: key, LastActive: before.LastActive}
		}
	}
	for key, d := range pod.demand {
		s := m.models[key]
		if s == nil || !s.concerns(gateway) {
			continue
		}
		s.active = later(s.active, earlier(d.LastActive, now))
		if !first && d.LastActive.After(old[key].LastActive) {
			m.stirred(s, now)
		}
		m.hear(s, podKey{gateway, name}, d, now)
	}
}

// Lost says that a pod's connection ended: until it reports again, or is known
// to be gone, what it does is unknown.
func (m *Machine) Lost(gateway, name string, now time.Time) {
	gw := m.gateways[gateway]
	if gw == nil || gw.pods[name] == nil {
		return
	}
	pod := gw.pods[name]
	for key := range pod.demand {
		if s := m.models[key]; s != nil {
			if _, loaded := s.load[podKey{gateway, name}]; loaded {
				s.active = now
			}
		}
	}
	pod.since = time.Time{}
	m.forgetIfGone(gateway, name, now)
}

// heardElsewhere takes the activity that another replica of the controller told in
// status.lastActiveTime, a whole second. It is as old as it says: taken for
// activity of now it would be told anew, to be heard by the other replica in turn,
// and the Model would never come to rest.
func (m *Machine) heardElsewhere(s *modelState, told, now time.Time) {
	at := later(s.active, earlier(told.Add(time.Second-1), now))
	if at.After(s.active.Add(slack)) { // that replica hears a pod that is out of touch here
		m.stirred(s, now)
	}
	s.active = at
}

// concerns says whether what a Gateway's pods report about the Model counts.
func (s *modelState) concerns(gateway string) bool {
	_, former := s.former[gateway]
	return former || slices.Contains(s.Gateways, gateway)
}

// hear takes one pod's word on the Model.
func (m *Machine) hear(s *modelState, key podKey, d Demand, now time.Time) {
	_, loaded := s.load[key]
	if d.Waiting > 0 || d.Running > 0 {
		s.load[key] = d
		m.stirred(s, now)
	} else if loaded {
		delete(s.load, key)
		m.stirred(s, now)
	}
}

// stirred notes activity, which undoes a scale-down that it crossed.
func (m *Machine) stirred(s *modelState, now time.Time) {
	s.active = now
	s.stir = true
	s.asleep = false
	if !s.sleptAt.IsZero() && now.Sub(s.sleptAt) <= m.timing.Race {
		s.undo = true
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
