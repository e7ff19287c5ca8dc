package status

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what became of updates; a nil one counts nothing.
type Metrics struct{ writes *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{writes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "flexinfer_controller_status_writes_total",
		Help: "Status updates by kind of object and result: written; conflict (somebody else wrote, translated anew); " +
			"failed; gone; deferred (to keep from a loop); outdated (written a moment ago, the news of it are on their way); " +
			"pointless (the API server keeps it otherwise).",
	}, []string{"kind", "result"})}
	return m, r.Register(m.writes)
}

func (m *Metrics) count(kind, result string) {
	if m != nil {
		m.writes.WithLabelValues(kind, result).Inc()
	}
}
