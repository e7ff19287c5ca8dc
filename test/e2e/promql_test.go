package e2e

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"

	"flexinfer.ai/gateway/internal/enginesim"
)

// expressions are the queries of the routing documentation: its signals and its
// runbook, $MODEL filled in.
var expressions = []struct{ name, query string }{
	{"key source mix", `sum by (key_source) (
  rate(flexinfer_proxy_routing_decisions_total{model="my-model",strategy="prefix"}[5m])
)`},
	{"service fallback ratio", `sum(rate(flexinfer_proxy_routing_decisions_total{model="my-model",strategy="prefix",outcome="service-fallback"}[5m]))
/
sum(rate(flexinfer_proxy_routing_decisions_total{model="my-model",strategy="prefix"}[5m]))`},
	{"route-hit distribution", `sum by (target) (
  rate(flexinfer_proxy_routing_target_hits_total{model="my-model",strategy="prefix"}[5m])
)`},
	{"key cardinality", `max by (key_source) (
  flexinfer_proxy_routing_key_cardinality{model="my-model",strategy="prefix"}
)`},
	{"cardinality tracker cap hits", `increase(flexinfer_proxy_routing_key_cardinality_overflow_total{model="my-model",strategy="prefix"}[15m])`},
	{"p95 request latency", `histogram_quantile(0.95, sum by (le) (
  rate(flexinfer_proxy_request_duration_seconds_bucket{model="my-model"}[5m])
))`},
}

// prometheus is a time-series database with an engine over it.
type prometheus struct {
	t      *testing.T
	db     *tsdb.DB
	engine *promql.Engine
}

func startPrometheus(t *testing.T) *prometheus {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), nil, nil, tsdb.DefaultOptions(), tsdb.NewDBStats())
	if err != nil {
		t.Fatal(err)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: patience, Parser: parser.NewParser(parser.Options{})})
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &prometheus{t, db, engine}
}

// ingest stores a scrape.
func (p *prometheus) ingest(samples []sample, at time.Time) {
	p.t.Helper()
	appender := p.db.Appender(context.Background())
	for _, s := range samples {
		if _, err := appender.Append(0, s.labels, at.UnixMilli(), s.value); err != nil {
			p.t.Fatalf("cannot store %s: %v", s.labels, err)
		}
	}
	if err := appender.Commit(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *prometheus) query(query string, at time.Time) promql.Vector {
	p.t.Helper()
	q, err := p.engine.NewInstantQuery(context.Background(), p.db, nil, query, at)
	if err != nil {
		p.t.Fatalf("%s: %v", query, err)
	}
	defer q.Close()
	result := q.Exec(context.Background())
	vector, err := result.Vector()
	if err != nil {
		p.t.Fatalf("%s: %v", query, err)
	}
	return append(promql.Vector(nil), vector...)
}

// Every expression of the documentation returns data over real scrapes, in normal
// traffic: no fallback, no overflow. The scrapes are 15 s apart to Prometheus; the
// traffic between them is real.
func TestPromQL(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 3, enginesim.Options{OutputTokens: 4, DecodeTokensPerSecond: 1000})
	g := serve(t, map[string]string{"all.yaml": gatewayYAML +
		modelYAML("my-model", strategy("prefix")) + serviceYAML(t, "my-model", ready(engines)...) +
		modelRouteYAML("r", "proxy", "my-model")})
	p := startPrometheus(t)
	at := time.Now()
	for round := range 4 {
		for i := range 20 {
			var header map[string]string
			switch i % 3 {
			case 0:
				header = map[string]string{"X-Flexinfer-Cache-Key": fmt.Sprint("tenant-a/doc-", i%6)}
			case 1:
				header = map[string]string{"X-Flexinfer-Cache-Key": "bad key with spaces"}
			}
			g.chat("proxy", fmt.Sprintf(`{"messages":[%s],"document_context":"section %d"}`, systemMessage, i%4), header)
		}
		p.ingest(g.scrape(), at.Add(time.Duration(round)*15*time.Second))
	}
	now := at.Add(46 * time.Second)
	values := map[string]promql.Vector{}
	for _, e := range expressions {
		v := p.query(e.query, now)
		values[e.name] = v
		if len(v) == 0 {
			t.Errorf("%s: no data", e.name)
		}
		for _, s := range v {
			if math.IsNaN(s.F) || math.IsInf(s.F, 0) || s.F < 0 {
				t.Errorf("%s: %v", e.name, s)
			}
		}
	}
	for _, zero := range []string{"service fallback ratio", "cardinality tracker cap hits"} {
		for _, s := range values[zero] {
			if s.F != 0 {
				t.Errorf("%s: %v, want 0", zero, s)
			}
		}
	}
	mix := map[string]float64{}
	for _, s := range values["key source mix"] {
		mix[s.Metric.Get("key_source")] = s.F
	}
	if mix["explicit-header"] <= 0 || mix["canonical"] <= mix["explicit-header"] {
		t.Errorf("key source mix %v", mix)
	}
	hits := 0
	for _, s := range values["route-hit distribution"] {
		if s.F > 0 {
			hits++
		}
	}
	if hits < 2 {
		t.Errorf("targets %v", values["route-hit distribution"])
	}
	for _, s := range values["key cardinality"] {
		if source := s.Metric.Get("key_source"); source == "explicit-header" && s.F != 2 || source == "canonical" && s.F != 4 {
			t.Errorf("key cardinality %v", s)
		}
	}
	for _, s := range values["p95 request latency"] {
		if s.F <= 0 || s.F > 30 {
			t.Errorf("p95 %v", s)
		}
	}
}
