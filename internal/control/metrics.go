package control

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the loop's own; a nil one counts nothing.
type Metrics struct {
	translations *prometheus.CounterVec
	duration     prometheus.Histogram
	waited       prometheus.Histogram
	published    prometheus.Histogram
	acked        prometheus.Histogram
	objects      *prometheus.GaugeVec
	gateways     *prometheus.GaugeVec
	refused      *prometheus.GaugeVec
	warnings     prometheus.Gauge
	leader       prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	seconds := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "flexinfer_controller_" + name + "_seconds", Help: help,
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		})
	}
	gauges := func(name, help string, label string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "flexinfer_controller_" + name, Help: help}, []string{label})
	}
	counters := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "flexinfer_controller_" + name, Help: help}, []string{"result"})
	}
	m := &Metrics{
		translations: counters("translations_total", "Translations of the cluster's objects: done; panicked (what was published before stays)."),
		duration:     seconds("translation_duration", "Duration of a translation, its publication included."),
		waited:       seconds("change_wait", "Time from a change to the start of its translation: coalescing, and the translation before."),
		published:    seconds("publish_lag", "Time from a change to the end of its publication; changes of nothing but statuses do not count."),
		acked:        seconds("acknowledge_lag", "Time from a publication until all connected pods of the Gateway had acknowledged it."),
		objects:      gauges("objects", "Objects that took part in the last translation.", "kind"),
		gateways:     gauges("gateways", "Gateways by state: programmed or pending.", "state"),
		refused:      gauges("refused_resources", "Resources that gateway pods refused and that are left out until they change, by Gateway.", "gateway"),
		warnings:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "flexinfer_controller_warnings", Help: "Mistakes found in objects by the last translation."}),
		leader:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "flexinfer_controller_leader", Help: "1 on the replica that writes statuses, provisions and scales down."}),
	}
	for _, c := range []prometheus.Collector{m.translations, m.duration, m.waited, m.published, m.acked, m.objects,
		m.gateways, m.refused, m.warnings, m.leader} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) translated(result string) {
	if m != nil {
		m.translations.WithLabelValues(result).Inc()
	}
}

func (m *Metrics) started(waited time.Duration) {
	if m != nil {
		m.waited.Observe(waited.Seconds())
	}
}

func (m *Metrics) finished(took time.Duration) {
	if m != nil {
		m.duration.Observe(took.Seconds())
	}
}

func (m *Metrics) publishedAfter(lag time.Duration) {
	if m != nil {
		m.published.Observe(lag.Seconds())
	}
}

func (m *Metrics) acknowledged(after time.Duration) {
	if m != nil {
		m.acked.Observe(after.Seconds())
	}
}

func (m *Metrics) setObjects(kind string, n int) {
	if m != nil {
		m.objects.WithLabelValues(kind).Set(float64(n))
	}
}

func (m *Metrics) setGateways(programmed, pending int) {
	if m != nil {
		m.gateways.WithLabelValues("programmed").Set(float64(programmed))
		m.gateways.WithLabelValues("pending").Set(float64(pending))
	}
}

func (m *Metrics) setRefused(byGateway map[string]int) {
	if m == nil {
		return
	}
	m.refused.Reset()
	for gateway, n := range byGateway {
		m.refused.WithLabelValues(gateway).Set(float64(n))
	}
}

func (m *Metrics) setWarnings(n int) {
	if m != nil {
		m.warnings.Set(float64(n))
	}
}

func (m *Metrics) setLeader(leads bool) {
	if m == nil {
		return
	}
	m.leader.Set(0)
	if leads {
		m.leader.Set(1)
	}
}
