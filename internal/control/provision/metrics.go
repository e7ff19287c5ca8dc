package provision

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what became of writes; a nil one counts nothing.
type Metrics struct{ writes *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{writes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "flexinfer_controller_provision_writes_total",
		Help: "Objects that Gateways run on, written, by kind and result: applied; deleted; failed (tried again). " +
			"Where nothing changes and nobody edits them, none is.",
	}, []string{"kind", "result"})}
	return m, r.Register(m.writes)
}

func (m *Metrics) count(kind, result string) {
	if m != nil {
		m.writes.WithLabelValues(kind, result).Inc()
	}
}
