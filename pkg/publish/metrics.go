package publish

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/stats"
)

// metrics are the Publisher's. As gRPC's stats handler they count bytes.
type metrics struct {
	streams     prometheus.Gauge
	connections *prometheus.CounterVec
	enrollments *prometheus.CounterVec
	acks        *prometheus.CounterVec
	changes     prometheus.Counter
	resources   *prometheus.CounterVec
	bytes       *prometheus.CounterVec
}

// newMetrics registers the metrics with r, if any.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	const prefix = "flexinfer_controller_publish_"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	m := &metrics{
		streams:     prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "streams", Help: "Open streams of gateway pods."}),
		connections: counter("connections_total", "Connections by result: admitted; refused (too many are open, of all or of one address).", "result"),
		enrollments: counter("enrollments_total", "Requests of gateway pods for a certificate, by result: enrolled, refused, failed.", "result"),
		acks: counter("acknowledgements_total", "Acknowledgements of gateway pods, by result: applied; refused (resources left out); "+
			"failed (not, or not wholly, in force).", "result"),
		changes:   prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "changes_total", Help: "Changes sent to gateway pods."}),
		resources: counter("resources_total", "Resources sent to gateway pods, by operation: set, remove.", "operation"),
		bytes:     counter("bytes_total", "Bytes sent to gateway pods, by form: plain (messages), wire (compressed, with gRPC's framing).", "form"),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.streams, m.connections, m.enrollments, m.acks, m.changes, m.resources, m.bytes} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) enrolled(result string) { m.enrollments.WithLabelValues(result).Inc() }

func (m *metrics) acknowledged(a *acknowledgment) {
	switch {
	case a.Error != "":
		m.acks.WithLabelValues("failed").Inc()
	case len(a.Refused) > 0:
		m.acks.WithLabelValues("refused").Inc()
	default:
		m.acks.WithLabelValues("applied").Inc()
	}
}

func (m *metrics) sent(set, removed int) {
	m.changes.Inc()
	m.resources.WithLabelValues("set").Add(float64(set))
	m.resources.WithLabelValues("remove").Add(float64(removed))
}

// TagRPC tells gRPC to go on with the context it has.
func (m *metrics) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn tells gRPC to go on with the context it has.
func (m *metrics) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn hears of connections, which are not counted.
func (m *metrics) HandleConn(context.Context, stats.ConnStats) {}

// HandleRPC counts what is sent.
func (m *metrics) HandleRPC(_ context.Context, s stats.RPCStats) {
	if out, ok := s.(*stats.OutPayload); ok {
		m.bytes.WithLabelValues("plain").Add(float64(out.Length))
		m.bytes.WithLabelValues("wire").Add(float64(out.WireLength))
	}
}
