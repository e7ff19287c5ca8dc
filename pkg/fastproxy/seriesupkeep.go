package fastproxy

import (
	"sync/atomic"

	"flexinfer.ai/gateway/pkg/routing"
)

// applied makes the series fit the Snapshot that has just gone live.
func (m *metrics) applied(live *routing.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.appliedAt.Store(unixNow())
	targets := map[*modelSeries][]*routing.Target{}
	ready := map[*modelSeries]map[string]struct{}{}
	members := map[*groupSeries][]*routing.BackendState{}
	for _, b := range live.Backends() {
		a := attachmentOf(b.State)
		if a.group != nil {
			for _, member := range b.Members {
				members[a.group] = append(members[a.group], member.State)
			}
			continue
		}
		t := append(append(targets[a.model], b.Ready...), b.Draining...)
		if b.Service != nil {
			t = append(t, b.Service)
		}
		targets[a.model] = t
		if ready[a.model] == nil {
			ready[a.model] = map[string]struct{}{}
		}
		for _, r := range b.Ready {
			ready[a.model][r.Address] = struct{}{}
		}
	}
	for _, s := range m.models {
		s.keepTargets(targets[s])
		s.countChanges(ready[s])
	}
	for _, g := range m.groups {
		g.keepMembers(members[g])
	}
}

// keepTargets drops the counters of targets that are gone and makes those of
// new ones.
func (s *modelSeries) keepTargets(targets []*routing.Target) {
	old := *s.hits.Load()
	hits := make(map[*routing.Target]*targetHits, len(targets))
	for _, t := range targets {
		if hits[t] = old[t]; hits[t] == nil {
			hits[t] = &targetHits{}
		}
	}
	s.hits.Store(&hits)
}

// countChanges counts the replicas that came and went.
func (s *modelSeries) countChanges(ready map[string]struct{}) {
	for address := range ready {
		if _, ok := s.ready[address]; !ok {
			s.changes[endpointAdded].Add(1)
		}
	}
	for address := range s.ready {
		if _, ok := ready[address]; !ok {
			s.changes[endpointRemoved].Add(1)
		}
	}
	s.ready = ready
}

func (g *groupSeries) keepMembers(states []*routing.BackendState) {
	old := *g.members.Load()
	members := make(map[*routing.BackendState]*atomic.Uint64, len(states))
	for _, state := range states {
		if members[state] = old[state]; members[state] == nil {
			members[state] = new(atomic.Uint64)
		}
	}
	g.members.Store(&members)
}
