package fastproxy

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// seriesOf are the series of the named families (without flexinfer_proxy_) in
// the text form, sorted by family as named.
func seriesOf(t testing.TB, s *Server, families ...string) []string {
	t.Helper()
	gathered, err := s.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for _, family := range gathered {
		var b bytes.Buffer
		if _, err = expfmt.MetricFamilyToText(&b, family); err != nil {
			t.Fatal(err)
		}
		text[family.GetName()] = b.String()
	}
	var out []string
	for _, name := range families {
		for line := range strings.Lines(text[metricPrefix+name]) {
			if !strings.HasPrefix(line, "#") {
				out = append(out, strings.TrimPrefix(strings.TrimSpace(line), metricPrefix))
			}
		}
	}
	return out
}

func checkSeries(t testing.TB, s *Server, families []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, seriesOf(t, s, families...)); diff != "" {
		t.Errorf("%v: (-want +got)\n%s", families, diff)
	}
}

// headers are a request's fields for routing.
type headers map[string]string

func (h headers) Value(name string) []byte {
	if v, ok := h[name]; ok {
		return []byte(v)
	}
	return nil
}

// decide makes and counts one decision of the live backend key, and returns it.
func decide(t testing.TB, s *Server, key string, h headers) routing.Decision {
	t.Helper()
	b := s.snapshot().Backend(key)
	if b == nil {
		t.Fatalf("no backend %s", key)
	}
	in := routing.RouteInput{Headers: h, Facts: &routing.Facts{}, Options: s.routing, Now: time.Now().UnixNano()}
	var lease routing.Lease
	var d routing.Decision
	b.Decide(&in, &lease, &d)
	s.decided(&d, true)
	lease.Release(in.Now, routing.ResultNeutral)
	return d
}

// modelConfig adds a Model in ns with the endpoints to cfg.
func addModel(cfg *routing.Config, namespace, name string, strategy routing.Strategy, service string, endpoints ...string) {
	key := "Model/" + namespace + "/" + name
	cfg.Backends = append(cfg.Backends, routing.Backend{
		Key: key, Kind: routing.BackendModel, Namespace: namespace, Name: name,
		Strategy: strategy, Endpoints: key, Service: service,
	})
	list := routing.EndpointList{Key: key}
	for _, e := range endpoints {
		list.Endpoints = append(list.Endpoints, routing.Endpoint{Address: e, State: routing.EndpointReady})
	}
	cfg.EndpointLists = append(cfg.EndpointLists, list)
	slices.SortFunc(cfg.Backends, func(a, b routing.Backend) int { return strings.Compare(a.Key, b.Key) })
	slices.SortFunc(cfg.EndpointLists, func(a, b routing.EndpointList) int { return strings.Compare(a.Key, b.Key) })
}

var decisionFamilies = []string{
	"routing_decisions_total", "routing_target_hits_total", "routing_key_cardinality",
	"routing_key_cardinality_overflow_total", "routing_malformed_keys_total",
}

// prefixSeries is the text of decisionFamilies of a Model with the prefix
// strategy: the decisions by source, hits as given, malformed keys.
func prefixSeries(model string, pods map[string]int, fallback int, hits []string, unique map[string]int, malformed [2]int) []string {
	sources := []string{"canonical", "explicit-body", "explicit-header", "prefix-field", "session-fallback"}
	var out, cardinality, overflow []string
	decisions := []string{fmt.Sprintf(`routing_decisions_total{key_source="none",model=%q,outcome="service-fallback",strategy="prefix"} %d`, model, fallback)}
	for _, s := range sources {
		decisions = append(decisions, fmt.Sprintf(`routing_decisions_total{key_source=%q,model=%q,outcome="pod",strategy="prefix"} %d`, s, model, pods[s]))
		cardinality = append(cardinality, fmt.Sprintf(`routing_key_cardinality{key_source=%q,model=%q,strategy="prefix"} %d`, s, model, unique[s]))
		overflow = append(overflow, fmt.Sprintf(`routing_key_cardinality_overflow_total{key_source=%q,model=%q,strategy="prefix"} 0`, s, model))
	}
	slices.Sort(decisions)
	out = append(out, decisions...)
	out = append(out, hits...)
	out = append(out, cardinality...)
	out = append(out, overflow...)
	return append(out,
		fmt.Sprintf(`routing_malformed_keys_total{key_source="explicit-body",model=%q} %d`, model, malformed[1]),
		fmt.Sprintf(`routing_malformed_keys_total{key_source="explicit-header",model=%q} %d`, model, malformed[0]))
}

func TestDecisionMetrics(t *testing.T) {
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyDefault, "10.0.0.1:8000")
	addModel(&cfg, "ns", "my-model", routing.StrategyPrefix, "10.96.0.1:80", "10.0.0.5:8000")
	s := startProxy(t, cfg, port, nil).Server

	// Before the first request everything that a query may ask for is there.
	checkSeries(t, s, decisionFamilies, prefixSeries("my-model", nil, 0, nil, nil, [2]int{})...)

	decide(t, s, "Model/ns/m", nil) // the default strategy has no decision metrics
	for range 3 {
		decide(t, s, "Model/ns/my-model", headers{"X-Flexinfer-Cache-Key": "tenant-a/doc-42"})
	}
	decide(t, s, "Model/ns/my-model", headers{"X-Flexinfer-Cache-Key": "tenant-a/doc-43"})
	decide(t, s, "Model/ns/my-model", headers{"X-Flexinfer-Cache-Key": "bad key", "X-Session-Id": "s"})
	decide(t, s, "Model/ns/my-model", nil)
	checkSeries(t, s, decisionFamilies, prefixSeries("my-model",
		map[string]int{"explicit-header": 4, "session-fallback": 1}, 1,
		[]string{
			`routing_target_hits_total{model="my-model",strategy="prefix",target="10.0.0.5:8000"} 5`,
			`routing_target_hits_total{model="my-model",strategy="prefix",target="service-dns"} 1`,
		},
		map[string]int{"explicit-header": 2, "session-fallback": 1}, [2]int{1, 0})...)
}

func TestSessionAndLeastLoadedMetrics(t *testing.T) {
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategySession, "10.0.0.1:8000")
	addModel(&cfg, "ns", "n", routing.StrategyLeastLoaded, "", "10.0.0.2:8000")
	s := startProxy(t, cfg, port, nil).Server
	decide(t, s, "Model/ns/m", headers{"X-Session-Id": "a"})
	decide(t, s, "Model/ns/m", nil)
	for range 4 {
		decide(t, s, "Model/ns/n", nil)
	}
	checkSeries(t, s, []string{"routing_decisions_total", "routing_target_hits_total", "least_loaded_reservations_total", "least_loaded_reservations_expired_total"},
		`routing_decisions_total{key_source="conversation-header",model="m",outcome="pod",strategy="session-affinity"} 0`,
		`routing_decisions_total{key_source="none",model="m",outcome="pod",strategy="session-affinity"} 1`,
		`routing_decisions_total{key_source="none",model="m",outcome="service-fallback",strategy="session-affinity"} 0`,
		`routing_decisions_total{key_source="none",model="n",outcome="pod",strategy="least-loaded"} 4`,
		`routing_decisions_total{key_source="none",model="n",outcome="service-fallback",strategy="least-loaded"} 0`,
		`routing_decisions_total{key_source="session-body",model="m",outcome="pod",strategy="session-affinity"} 0`,
		`routing_decisions_total{key_source="session-cache-key",model="m",outcome="pod",strategy="session-affinity"} 0`,
		`routing_decisions_total{key_source="session-client-header",model="m",outcome="pod",strategy="session-affinity"} 0`,
		`routing_decisions_total{key_source="session-header",model="m",outcome="pod",strategy="session-affinity"} 1`,
		`routing_decisions_total{key_source="session-messages",model="m",outcome="pod",strategy="session-affinity"} 0`,
		`routing_target_hits_total{model="m",strategy="session-affinity",target="10.0.0.1:8000"} 2`,
		`routing_target_hits_total{model="n",strategy="least-loaded",target="10.0.0.2:8000"} 4`,
		`least_loaded_reservations_total{model="m"} 0`,
		`least_loaded_reservations_total{model="n"} 4`,
		`least_loaded_reservations_expired_total{model="m"} 0`,
		`least_loaded_reservations_expired_total{model="n"} 0`,
	)
}

func TestOverflowMetric(t *testing.T) {
	port := testrig.FreePort(t)
	s := startProxy(t, oneModel(port, routing.StrategySession, "10.0.0.1:8000"), port, func(o *Options) {
		o.Settings.CardinalityLimit = 2
	}).Server
	for i := range 5 {
		decide(t, s, "Model/ns/m", headers{"X-Session-Id": fmt.Sprint("s", i)})
	}
	for _, want := range []string{
		`routing_key_cardinality{key_source="session-header",model="m",strategy="session-affinity"} 2`,
		`routing_key_cardinality_overflow_total{key_source="session-header",model="m",strategy="session-affinity"} 3`,
	} {
		if got := seriesOf(t, s, "routing_key_cardinality", "routing_key_cardinality_overflow_total"); !slices.Contains(got, want) {
			t.Errorf("%s is not in %q", want, got)
		}
	}
}

func TestGroupMetrics(t *testing.T) {
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyDefault, "10.0.0.1:8000")
	addModel(&cfg, "ns", "n", routing.StrategyDefault, "", "10.0.0.2:8000")
	cfg.Backends = append([]routing.Backend{{
		Key: "Group/ns/tts", Kind: routing.BackendGroup, Namespace: "ns", Name: "tts", Members: []string{"Model/ns/m", "Model/ns/n"},
	}}, cfg.Backends...)
	s := startProxy(t, cfg, port, func(o *Options) { o.Settings.LabelGroupMode = routing.ModeLeastLoaded }).Server
	for range 4 {
		decide(t, s, "Group/ns/tts", nil)
	}
	families := []string{"label_group_route_decisions_total", "label_group_route_target_hits_total"}
	outcome := func(name string, n int) string {
		return fmt.Sprintf(`label_group_route_decisions_total{label="tts",outcome=%q,strategy="least-loaded"} %d`, name, n)
	}
	checkSeries(t, s, families,
		outcome("default_rr", 0), outcome("fallback_no_key", 0), outcome("fallback_no_ready", 0), outcome("fallback_single", 0),
		outcome("hashed_prefix", 0), outcome("hashed_session", 0), outcome("least_loaded", 4), outcome("priority_pick", 0),
		`label_group_route_target_hits_total{label="tts",model="m",strategy="least-loaded"} 2`,
		`label_group_route_target_hits_total{label="tts",model="n",strategy="least-loaded"} 2`,
	)
}

// TestSeriesEndWithTheirEntities: series of endpoints and backends that are gone
// are dropped and do not come back by what a late exchange still counts.
func TestSeriesEndWithTheirEntities(t *testing.T) {
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategySession, "10.0.0.1:8000", "10.0.0.2:8000")
	addModel(&cfg, "ns", "old", routing.StrategyPrefix, "", "10.0.0.9:8000")
	p := startProxy(t, cfg, port, nil)
	var late []routing.Decision
	for i := range 40 {
		late = append(late, decide(t, p.Server, "Model/ns/m", headers{"X-Session-Id": fmt.Sprint(i)}))
	}
	late = append(late, decide(t, p.Server, "Model/ns/old", headers{"X-Session-Id": "s"}))
	p.config.EndpointLists = []routing.EndpointList{{Key: "Model/ns/m", Endpoints: []routing.Endpoint{{Address: "10.0.0.2:8000", State: routing.EndpointReady}}}}
	p.config.Backends = p.config.Backends[:1]
	p.apply()
	check := func() {
		t.Helper()
		all := strings.Join(seriesOf(t, p.Server, append(decisionFamilies, "endpoint_passed_over", "requests_total",
			"request_duration_seconds", "endpoint_count", "active_connections")...), "\n")
		if strings.Contains(all, "10.0.0.1:8000") || strings.Contains(all, `"old"`) || strings.Contains(all, "10.0.0.9") {
			t.Errorf("series of what is gone:\n%s", all)
		}
		if !strings.Contains(all, `target="10.0.0.2:8000"`) {
			t.Errorf("the series of what stayed are gone:\n%s", all)
		}
	}
	check()
	for i := range late {
		p.decided(&late[i], true)
	}
	check()
	checkSeries(t, p.Server, []string{"endpoint_count", "endpoint_changes_total", "endpoint_passed_over"},
		`endpoint_count{model="m"} 1`,
		`endpoint_changes_total{change_type="added",model="m"} 2`,
		`endpoint_changes_total{change_type="removed",model="m"} 1`,
		`endpoint_passed_over{model="m",target="10.0.0.2:8000"} 0`,
	)
}

// TestModelsOfOneName: backends of one name in two namespaces share series, and
// keep them while one of both lives.
func TestModelsOfOneName(t *testing.T) {
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategySession, "10.0.0.1:8000")
	addModel(&cfg, "other", "m", routing.StrategySession, "", "10.0.0.1:8000", "10.0.0.2:8000")
	p := startProxy(t, cfg, port, nil)
	for _, key := range []string{"Model/ns/m", "Model/other/m"} {
		decide(t, p.Server, key, headers{"X-Session-Id": "a"})
	}
	const decisions = `routing_decisions_total{key_source="session-header",model="m",outcome="pod",strategy="session-affinity"} 2`
	if got := seriesOf(t, p.Server, "routing_decisions_total"); !slices.Contains(got, decisions) {
		t.Errorf("got %q", got)
	}
	p.config.Backends, p.config.EndpointLists = p.config.Backends[:1], p.config.EndpointLists[:1]
	p.apply()
	if got := seriesOf(t, p.Server, "routing_decisions_total"); !slices.Contains(got, decisions) {
		t.Errorf("after one has gone: %q", got)
	}
}

// TestRequestMetrics: what one real request after the other leaves in a scrape.
func TestRequestMetrics(t *testing.T) {
	port := testrig.FreePort(t)
	engine := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/teapot" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	cfg := oneModel(port, routing.StrategyDefault, engine)
	cfg.Routes[0].Rules[0].Matches = []routing.Match{{Path: "/teapot"}, {Path: "/ok"}}
	p := startProxy(t, cfg, port, nil)
	c := newClient(t)
	for _, path := range []string{"/ok", "/ok", "/teapot", "/nowhere"} {
		p.post(c, path, "{}").Body.Close()
	}
	families := []string{"requests_total", "unrouted_requests_total", "active_connections", "queue_depth", "queue_rejected_total", "answers_cut_total"}
	want := []string{
		`requests_total{model="m",status="200"} 2`, `requests_total{model="m",status="418"} 1`,
		`unrouted_requests_total{status="404"} 1`, `active_connections{model="m"} 0`, `queue_depth{model="m"} 0`,
		`queue_rejected_total{model="m"} 0`, `answers_cut_total{model="m"} 0`,
	}
	waitUntil(t, "all requests are recorded", func() bool { return slices.Equal(seriesOf(t, p.Server, families...), want) })
	for _, name := range []string{"request_duration_seconds", "time_to_first_byte_seconds"} {
		got := seriesOf(t, p.Server, name)
		for _, series := range []string{name + `_count{model="m"} 3`, name + `_bucket{model="m",le="600"} 3`} {
			if !slices.Contains(got, series) {
				t.Errorf("%s is not in %q", series, got)
			}
		}
	}
	snapshot := seriesOf(t, p.Server, "snapshot_info", "snapshot_generation", "snapshot_age_seconds", "snapshot_apply_failures_total")
	if len(snapshot) != 4 || snapshot[0] != fmt.Sprintf("snapshot_info{version=%q} 1", p.snapshot().Version()) ||
		snapshot[1] != "snapshot_generation 1" || snapshot[3] != "snapshot_apply_failures_total 0" {
		t.Errorf("got %q", snapshot)
	}
}

func TestRequestToNobodyIsUnrouted(t *testing.T) {
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyDefault)
	p := startProxy(t, cfg, port, nil)
	p.post(newClient(t), "/", "{}").Body.Close()
	want := []string{`requests_total{model="m",status="503"} 1`}
	waitUntil(t, "the request is recorded under its Model", func() bool {
		return slices.Equal(seriesOf(t, p.Server, "requests_total", "unrouted_requests_total"), want)
	})
}

// TestScrapeWhileEverythingChanges: scrapes, decisions and configurations at the
// same time; each scrape is consistent in itself (Gather checks it).
func TestScrapeWhileEverythingChanges(t *testing.T) {
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategySession, "10.0.0.1:8000", "10.0.0.2:8000"), port, nil)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 2 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					decide(t, p.Server, "Model/ns/m", headers{"X-Session-Id": fmt.Sprint(i, n%100)})
				}
			}
		})
	}
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				seriesOf(t, p.Server, "routing_target_hits_total")
			}
		}
	})
	for i := range 60 {
		p.config.EndpointLists = []routing.EndpointList{{Key: "Model/ns/m", Endpoints: []routing.Endpoint{
			{Address: fmt.Sprintf("10.0.0.%d:8000", 1+i%3), State: routing.EndpointReady},
		}}}
		cfg := p.config
		cfg.Backends = slices.Clone(cfg.Backends)
		if i%2 == 0 {
			addModel(&cfg, "ns", "x", routing.StrategyPrefix, "", "10.0.1.1:8000")
		}
		cfg.Generation = uint64(i + 10)
		if err := p.Apply(&cfg); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	decide(t, p.Server, "Model/ns/m", headers{"X-Session-Id": "last"})
	for _, line := range seriesOf(t, p.Server, "routing_target_hits_total") {
		if !strings.Contains(line, `target="10.0.0.3:8000"`) {
			t.Errorf("a target that is gone: %s", line)
		}
	}
}
