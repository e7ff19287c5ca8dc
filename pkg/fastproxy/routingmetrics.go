package fastproxy

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"flexinfer.ai/gateway/pkg/routing"
)

// The strategies that have routing-decision metrics, as rows of tables. The
// default strategy has none.
const (
	rowSession = iota
	rowPrefix
	rowLeastLoaded
	numRows
)

var rowStrategies = [numRows]routing.Strategy{
	rowSession:     routing.StrategySession,
	rowPrefix:      routing.StrategyPrefix,
	rowLeastLoaded: routing.StrategyLeastLoaded,
}

// rowOf is the row of a strategy, -1 for the default one.
func rowOf(s routing.Strategy) int {
	switch s {
	case routing.StrategySession:
		return rowSession
	case routing.StrategyPrefix:
		return rowPrefix
	case routing.StrategyLeastLoaded:
		return rowLeastLoaded
	}
	return -1
}

// rowSources are the key sources that a strategy knows: their series exist
// before the first key comes.
var rowSources = [numRows][]routing.KeySource{
	rowSession: {
		routing.SourceSessionHeader, routing.SourceConversationHeader, routing.SourceSessionBody,
		routing.SourceSessionClientHeader, routing.SourceSessionCacheKey, routing.SourceSessionMessages,
	},
	rowPrefix: {
		routing.SourceExplicitHeader, routing.SourceExplicitBody, routing.SourcePrefixField,
		routing.SourceCanonical, routing.SourceSessionFallback,
	},
}

// The outcomes of a decision, as columns.
const (
	columnPod = iota
	columnService
	numColumns
)

var columnOutcomes = [numColumns]routing.Outcome{
	columnPod: routing.OutcomePod, columnService: routing.OutcomeServiceFallback,
}

// serviceTarget is the label `target` of a Service that was dialled itself.
const serviceTarget = "service-dns"

// The directions of an endpoint change.
const (
	endpointAdded = iota
	endpointRemoved
	numChanges
)

var changeNames = [numChanges]string{endpointAdded: "added", endpointRemoved: "removed"}

// The places of a malformed explicit key.
const (
	malformedHeader = iota
	malformedBody
	numMalformed
)

var malformedSources = [numMalformed]routing.KeySource{
	malformedHeader: routing.SourceExplicitHeader, malformedBody: routing.SourceExplicitBody,
}

// modelSeries is what is counted under one value of the label `model`.
type modelSeries struct {
	backends int // that share it

	requests  statusCounts
	cut       atomic.Uint64
	retries   [numRetryReasons]atomic.Uint64
	rejected  atomic.Uint64
	malformed [numMalformed]atomic.Uint64
	changes   [numChanges]atomic.Uint64
	decisions [numRows][routing.NumKeySources][numColumns]atomic.Uint64

	// hits counts decisions by target. The map is replaced, never written.
	hits atomic.Pointer[map[*routing.Target]*targetHits]
	// ready are the addresses of the replicas that take requests.
	ready map[string]struct{}

	duration, firstByte, queueWait prometheus.Observer
}

// targetHits counts the decisions for one target by the row of their strategy.
type targetHits [numRows]atomic.Uint64

// groupSeries is what is counted under one value of the label `label`.
type groupSeries struct {
	backends int // that share it
	outcomes [routing.NumGroupOutcomes]atomic.Uint64
	// members counts picks by member. The map is replaced, never written.
	members atomic.Pointer[map[*routing.BackendState]*atomic.Uint64]
}

// modelSeries is the one called name, made where there is none yet.
func (m *metrics) modelSeries(name string) *modelSeries {
	s := m.models[name]
	if s == nil {
		s = &modelSeries{
			duration:  m.duration.WithLabelValues(name),
			firstByte: m.firstByte.WithLabelValues(name),
			queueWait: m.queueWait.WithLabelValues(name),
		}
		s.hits.Store(&map[*routing.Target]*targetHits{})
		m.models[name] = s
	}
	s.backends++
	return s
}

func (m *metrics) groupSeries(label string) *groupSeries {
	g := m.groups[label]
	if g == nil {
		g = &groupSeries{}
		g.members.Store(&map[*routing.BackendState]*atomic.Uint64{})
		m.groups[label] = g
	}
	g.backends++
	return g
}

// isGroup says whether s is a label group's state.
func isGroup(s *routing.BackendState) bool {
	return strings.HasPrefix(s.Key, string(routing.BackendGroup)+"/")
}

// decision counts d. first: it is not a further try of the same request.
// No allocation once the target has been counted before.
func (m *metrics) decision(d *routing.Decision, first bool) {
	if d.Group != nil {
		m.groupDecision(d)
	}
	row := rowOf(d.Backend.Strategy)
	if row < 0 {
		return
	}
	series := attachmentOf(d.Backend.State).model
	if first {
		if d.Malformed.Header {
			series.malformed[malformedHeader].Add(1)
		}
		if d.Malformed.Body {
			series.malformed[malformedBody].Add(1)
		}
	}
	column := columnPod
	switch d.Outcome {
	case routing.OutcomePod:
	case routing.OutcomeServiceFallback:
		column = columnService
	default:
		return
	}
	series.decisions[row][d.Key.Source][column].Add(1)
	if c := d.Backend.State.Cardinality(d.Backend.Strategy, d.Key.Source); c != nil {
		c.Add(d.Key.Hash)
	}
	hits := (*series.hits.Load())[d.Target]
	if hits == nil {
		if hits = m.addTarget(series, d); hits == nil {
			return
		}
	}
	hits[row].Add(1)
}

func (m *metrics) groupDecision(d *routing.Decision) {
	g := attachmentOf(d.Group.State).group
	g.outcomes[d.GroupOutcome].Add(1)
	picks := (*g.members.Load())[d.Backend.State]
	if picks == nil {
		if picks = m.addMember(g, d); picks == nil {
			return
		}
	}
	picks.Add(1)
}

// addTarget makes the counter of a target that a swap has just brought; nil: the
// target has just gone, and its series must not come back.
func (m *metrics) addTarget(s *modelSeries, d *routing.Decision) *targetHits {
	m.mu.Lock()
	defer m.mu.Unlock()
	if live := m.server.snapshot(); live == nil || !hasTarget(live.Backend(d.Backend.Key), d.Target) {
		return nil
	}
	hits := maps.Clone(*s.hits.Load())
	if hits[d.Target] == nil {
		hits[d.Target] = &targetHits{}
		s.hits.Store(&hits)
	}
	return hits[d.Target]
}

func hasTarget(b *routing.CompiledBackend, t *routing.Target) bool {
	return b != nil && (b.Service == t || slices.Contains(b.Ready, t) || slices.Contains(b.Draining, t))
}

// addMember is addTarget for a group's member.
func (m *metrics) addMember(g *groupSeries, d *routing.Decision) *atomic.Uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	live := m.server.snapshot()
	if live == nil {
		return nil
	}
	group := live.Backend(d.Group.Key)
	if group == nil || !slices.ContainsFunc(group.Members, func(b *routing.CompiledBackend) bool { return b.State == d.Backend.State }) {
		return nil
	}
	members := maps.Clone(*g.members.Load())
	if members[d.Backend.State] == nil {
		members[d.Backend.State] = new(atomic.Uint64)
		g.members.Store(&members)
	}
	return members[d.Backend.State]
}
