package fastproxy

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"flexinfer.ai/gateway/pkg/routing"
)

// collector shows metrics to Prometheus' registry.
type collector metrics

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	m := (*metrics)(c)
	e := emitter{ch}
	m.collectProcess(e)
	m.mu.Lock()
	defer m.mu.Unlock()
	live := m.server.snapshot() // under the lock, so that all its series are there
	if live == nil {
		return
	}
	m.collectSnapshot(e, live)
	for name, s := range m.models {
		s.collect(e, name)
	}
	m.collectStates(e, live)
	mode := m.server.routing.LabelGroupMode.String()
	for label, g := range m.groups {
		g.collect(e, label, mode)
	}
}

// emitter sends one series at a time.
type emitter struct{ ch chan<- prometheus.Metric }

func (e emitter) counter(d *prometheus.Desc, v uint64, labels ...string) {
	e.send(d, prometheus.CounterValue, float64(v), labels)
}

func (e emitter) gauge(d *prometheus.Desc, v float64, labels ...string) {
	e.send(d, prometheus.GaugeValue, v, labels)
}

func (e emitter) send(d *prometheus.Desc, t prometheus.ValueType, v float64, labels []string) {
	metric, err := prometheus.NewConstMetric(d, t, v, labels...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(d, err)
	}
	e.ch <- metric
}

func (e emitter) statuses(d *prometheus.Desc, c *statusCounts, labels ...string) {
	for i := range c {
		if n := c[i].Load(); n > 0 {
			e.counter(d, n, append(labels, strconv.Itoa(i+100))...)
		}
	}
}

func (m *metrics) collectProcess(e emitter) {
	e.counter(descApplyFailures, m.applyFailures.Load())
	e.statuses(descUnrouted, &m.unrouted)
	e.gauge(descBuffered, float64(m.server.bodies.used.Load()))
	if c := m.server.mirrors; c != nil {
		e.counter(descMirrored, c.sent.Load(), "sent")
		e.counter(descMirrored, c.dropped.Load(), "dropped")
		e.counter(descMirrored, c.failed.Load(), "failed")
	}
	if m.server.front == nil {
		return
	}
	f := &m.server.front.counters
	e.counter(descAccepted, uint64(f.accepted.Load()))
	e.gauge(descOpen, float64(f.open.Load()))
	e.counter(descOverLimit, uint64(f.overLimit.Load()))
	e.counter(descAcceptErrors, uint64(f.acceptErrors.Load()))
	e.counter(descTLSFailed, uint64(f.tlsFailed.Load()))
	e.counter(descPanics, uint64(f.panics.Load()))
	f.refused.each(func(reason string, n int64) { e.counter(descRefused, uint64(n), reason) })
}

func (m *metrics) collectSnapshot(e emitter, live *routing.Snapshot) {
	e.gauge(descSnapshotInfo, 1, live.Version())
	e.gauge(descSnapshotGeneration, float64(live.Generation()))
	e.gauge(descSnapshotAge, seconds(unixNow()-m.appliedAt.Load()))
	open, idle := 0, 0
	seen := map[*routing.Target]bool{}
	for _, b := range live.Backends() {
		for _, t := range targetsOf(b) {
			if p, ok := t.Attached.(*pool); ok && !seen[t] {
				seen[t] = true
				o, i := p.counts()
				open, idle = open+o, idle+i
			}
		}
	}
	e.gauge(descUpstream, float64(open-idle), "active")
	e.gauge(descUpstream, float64(idle), "idle")
}

func targetsOf(b *routing.CompiledBackend) []*routing.Target {
	targets := append(append([]*routing.Target(nil), b.Ready...), b.Draining...)
	if b.Service != nil {
		targets = append(targets, b.Service)
	}
	return targets
}

// collect sends what is counted under one model.
func (s *modelSeries) collect(e emitter, name string) {
	e.statuses(descRequests, &s.requests, name)
	e.counter(descCut, s.cut.Load(), name)
	e.counter(descQueueRejected, s.rejected.Load(), name)
	for r := retryNone + 1; int(r) < numRetryReasons; r++ {
		e.counter(descRetries, s.retries[r].Load(), name, r.String())
	}
	e.gauge(descEndpoints, float64(len(s.ready)), name)
	for i := range s.changes {
		e.counter(descEndpointChanges, s.changes[i].Load(), name, changeNames[i])
	}
	for row := range s.decisions {
		for source := range s.decisions[row] {
			for column := range s.decisions[row][source] {
				if n := s.decisions[row][source][column].Load(); n > 0 {
					e.decision(name, row, routing.KeySource(source), column, n)
				}
			}
		}
	}
}

func (e emitter) decision(name string, row int, source routing.KeySource, column int, n uint64) {
	e.counter(descDecisions, n, name, string(rowStrategies[row]), source.String(), columnOutcomes[column].String())
}

// stateSums adds up what backends of one name count.
type stateSums struct {
	series                *modelSeries
	active, depth         int64
	reservations, expired uint64
	rows                  [numRows]bool // strategies in use
	unique                [numRows][routing.NumKeySources]int
	overflow              [numRows][routing.NumKeySources]uint64
}

func (s *stateSums) add(b *routing.CompiledBackend, now int64) {
	state := b.State
	state.ExpireReservations(now)
	s.active += state.Active()
	s.depth += attachmentOf(state).queue.depth.Load()
	s.reservations += state.ReservationsTotal()
	s.expired += state.ReservationsExpiredTotal()
	row := rowOf(b.Strategy)
	if row < 0 {
		return
	}
	s.rows[row] = true
	for _, source := range rowSources[row] {
		if c := state.Cardinality(b.Strategy, source); c != nil {
			s.unique[row][source] += c.Unique()
			s.overflow[row][source] += c.Overflow()
		}
	}
}

// collectStates sends what the live backends themselves count.
func (m *metrics) collectStates(e emitter, live *routing.Snapshot) {
	now := unixNow()
	sums := map[string]*stateSums{}
	hits := map[[3]string]uint64{}
	passedOver := map[[2]string]float64{}
	for _, b := range live.Backends() {
		series := attachmentOf(b.State).model
		if series == nil {
			continue
		}
		first := sums[b.Name] == nil
		if first {
			sums[b.Name] = &stateSums{series: series}
		}
		sums[b.Name].add(b, now)
		for _, t := range targetsOf(b) {
			if !t.ServiceFallback {
				key := [2]string{b.Name, t.Address}
				passedOver[key] = max(passedOver[key], oneIf(t.PassedOver(now)))
			}
		}
		if first {
			series.addHits(hits, b.Name)
		}
	}
	for name, s := range sums {
		s.collect(e, name)
	}
	for key, n := range hits {
		e.counter(descHits, n, key[:]...)
	}
	for key, v := range passedOver {
		e.gauge(descPassedOver, v, key[:]...)
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// addHits adds the decisions by model, strategy and target.
func (s *modelSeries) addHits(sums map[[3]string]uint64, name string) {
	for t, h := range *s.hits.Load() {
		target := t.Address
		if t.ServiceFallback {
			target = serviceTarget
		}
		for row := range h {
			if n := h[row].Load(); n > 0 {
				sums[[3]string{name, string(rowStrategies[row]), target}] += n
			}
		}
	}
}

func (s *stateSums) collect(e emitter, name string) {
	e.gauge(descActive, float64(s.active), name)
	e.gauge(descQueueDepth, float64(s.depth), name)
	e.counter(descReservations, s.reservations, name)
	e.counter(descExpired, s.expired, name)
	for row, used := range s.rows {
		if used {
			s.collectKeys(e, name, row)
			s.series.collectUnused(e, name, row)
		}
	}
	if s.rows[rowPrefix] {
		for i, source := range malformedSources {
			e.counter(descMalformed, s.series.malformed[i].Load(), name, source.String())
		}
	}
}

func (s *stateSums) collectKeys(e emitter, name string, row int) {
	strategy := string(rowStrategies[row])
	for _, source := range rowSources[row] {
		e.gauge(descCardinality, float64(s.unique[row][source]), name, strategy, source.String())
		e.counter(descOverflow, s.overflow[row][source], name, strategy, source.String())
	}
}

// collectUnused sends the decisions that a strategy in use has not made yet:
// each source with a pod, and the fall-back to the Service.
func (s *modelSeries) collectUnused(e emitter, name string, row int) {
	sources := rowSources[row]
	if len(sources) == 0 {
		sources = []routing.KeySource{routing.SourceNone}
	}
	for _, source := range sources {
		if s.decisions[row][source][columnPod].Load() == 0 {
			e.decision(name, row, source, columnPod, 0)
		}
	}
	if s.decisions[row][routing.SourceNone][columnService].Load() == 0 {
		e.decision(name, row, routing.SourceNone, columnService, 0)
	}
}

func (g *groupSeries) collect(e emitter, label, mode string) {
	for outcome := routing.GroupNone + 1; int(outcome) < routing.NumGroupOutcomes; outcome++ {
		e.counter(descGroupDecisions, g.outcomes[outcome].Load(), label, mode, outcome.String())
	}
	picks := map[string]uint64{}
	for state, n := range *g.members.Load() {
		picks[state.Name] += n.Load()
	}
	for name, n := range picks {
		e.counter(descGroupHits, n, label, mode, name)
	}
}
