package scale

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts actions; a nil one counts nothing.
type Metrics struct{ actions *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{actions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "flexinfer_controller_scale_actions_total",
		Help: "What was done to let Models sleep and wake, by action (wake, sleep, look, touch) and result: " +
			"changed (other replicas, or a time written); unchanged; failed.",
	}, []string{"action", "result"})}
	return m, r.Register(m.actions)
}

func (m *Metrics) count(v Verb, o Outcome) {
	if m == nil {
		return
	}
	result := "unchanged"
	switch {
	case o.Err != nil:
		result = "failed"
	case v == Touch || o.Before != o.After:
		result = "changed"
	}
	m.actions.WithLabelValues(v.String(), result).Inc()
}
