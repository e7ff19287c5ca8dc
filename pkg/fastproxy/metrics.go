package fastproxy

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"flexinfer.ai/gateway/pkg/routing"
)

// metrics counts what the data plane does. The request path adds to plain
// atomics that hang on the routing entities: no look-up by label, no lock, no
// allocation. A scrape turns them into series. Series of a backend or an
// endpoint exist from the Snapshot that brings it (most at zero, so that a rate
// over the first increments is not lost) and are dropped with it.
//
// The label `model` is the name of a Model or Service of the live Snapshot and
// `target` an address of it: nothing from a client becomes a label. Backends of
// one name in several namespaces share their series.
type metrics struct {
	server   *Server
	registry *prometheus.Registry

	duration, firstByte, queueWait *prometheus.HistogramVec

	// unrouted counts the answers to requests that reached no backend.
	unrouted      statusCounts
	applyFailures atomic.Uint64
	// appliedAt is when the live Snapshot was applied, Unix nanoseconds.
	appliedAt atomic.Int64

	mu     sync.Mutex // guards the maps and what they hold but for the atomics
	models map[string]*modelSeries
	groups map[string]*groupSeries
}

// durationBuckets reach from a cached answer to a long generation, in seconds.
var durationBuckets = []float64{
	.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600,
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		server: s, registry: prometheus.NewRegistry(),
		models: map[string]*modelSeries{}, groups: map[string]*groupSeries{},
		duration: newDurations("request_duration_seconds",
			"Time from a request's head to the end of its answer, a wait for a cold Model included."),
		firstByte: newDurations("time_to_first_byte_seconds",
			"Time from a request's head to the head of the engine's answer, a wait for a cold Model included."),
		queueWait: newDurations("queue_wait_duration_seconds",
			"Time that requests waited for a cold Model, however the wait ended."),
	}
	m.registry.MustRegister(m.duration, m.firstByte, m.queueWait, (*collector)(m),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(s.options.Collectors...)
	return m
}

func newDurations(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: metricPrefix + name, Help: help, Buckets: durationBuckets,
	}, []string{"model"})
}

// backendAttachment is what the data plane hangs on a routing.BackendState.
type backendAttachment struct {
	queue coldQueue
	// model is set for a Model or Service, group for a label group.
	model *modelSeries
	group *groupSeries
}

// attachmentOf is what newBackendAttachment made for s.
func attachmentOf(s *routing.BackendState) *backendAttachment {
	return s.Attached.(*backendAttachment)
}

// newBackendAttachment makes the attachment of s; queueLimit bounds the requests
// that wait for it. backendGone undoes it.
func newBackendAttachment(m *metrics, s *routing.BackendState, queueLimit int) *backendAttachment {
	a := &backendAttachment{queue: coldQueue{limit: queueLimit}}
	m.mu.Lock()
	defer m.mu.Unlock()
	if isGroup(s) {
		a.group = m.groupSeries(s.Name)
	} else {
		a.model = m.modelSeries(s.Name)
	}
	return a
}

// backendGone drops the series that only s had and ends the waits for it.
func (m *metrics) backendGone(s *routing.BackendState) {
	a := attachmentOf(s)
	a.queue.wake(func(string) bool { return true })
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := a.group; g != nil {
		if g.backends--; g.backends == 0 {
			delete(m.groups, s.Name)
		}
		return
	}
	if a.model.backends--; a.model.backends == 0 {
		delete(m.models, s.Name)
		m.duration.DeleteLabelValues(s.Name)
		m.firstByte.DeleteLabelValues(s.Name)
		m.queueWait.DeleteLabelValues(s.Name)
	}
}

// statusCounts counts by HTTP status code.
type statusCounts [500]atomic.Uint64

func (c *statusCounts) add(status int) {
	if i := status - 100; uint(i) < uint(len(c)) {
		c[i].Add(1)
	}
}

// retried counts a try that follows another one.
func (m *metrics) retried(s *routing.BackendState, reason retryReason) {
	attachmentOf(s).model.retries[reason].Add(1)
}

// applyFailed counts a Config that did not compile.
func (m *metrics) applyFailed() { m.applyFailures.Add(1) }

// finished counts an exchange at its end, at the time now in Unix nanoseconds.
func (m *metrics) finished(x *exchange, now int64) {
	b := x.decision.Backend
	if b == nil {
		b = x.backend
	}
	status := x.finalStatus()
	if b == nil || b.Kind == routing.BackendGroup {
		m.unrouted.add(status)
		return
	}
	series := attachmentOf(b.State).model
	series.requests.add(status)
	series.duration.Observe(seconds(now - x.started))
	if x.failed != nil {
		return
	}
	series.firstByte.Observe(seconds(x.answered - x.started))
	if x.streamed != nil && status != failClientGone.status {
		series.cut.Add(1)
	}
}

// finalStatus is the status that went to the client, 499 where it left before
// the answer was complete.
func (x *exchange) finalStatus() int {
	switch {
	case x.failed == &failClientGone, errors.Is(x.streamed, errClientGone), errors.Is(x.streamed, errClientWrite):
		return failClientGone.status
	case x.failed != nil && x.req.grpc:
		return 200 // a trailers-only answer
	case x.failed != nil:
		return x.failed.status
	}
	return x.resp.header.StatusCode()
}

func seconds(nanoseconds int64) float64 { return float64(nanoseconds) / 1e9 }
