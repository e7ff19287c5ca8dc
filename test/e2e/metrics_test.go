package e2e

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// sample is one series and its value.
type sample struct {
	labels labels.Labels
	value  float64
}

// scrape reads the gateway's metrics with Prometheus's own parser.
func (g *gateway) scrape() []sample {
	g.t.Helper()
	status, text := tryGet(g.admin + "/metrics")
	if status != http.StatusOK {
		g.t.Fatalf("/metrics answers %d", status)
	}
	return parseMetrics(g.t, text)
}

func parseMetrics(t *testing.T, text string) []sample {
	t.Helper()
	parser, err := textparse.New([]byte(text), "text/plain", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var samples []sample
	for {
		entry, err := parser.Next()
		if err != nil {
			return untilEOF(t, err, samples)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, value := parser.Series()
		var l labels.Labels
		parser.Labels(&l)
		samples = append(samples, sample{l, value})
	}
}

// total sums the series of a name that have the labels ("name", "value", ...).
func total(samples []sample, name string, pairs ...string) float64 {
	sum := 0.0
next:
	for _, s := range samples {
		if s.labels.Get(model.MetricNameLabel) != name {
			continue
		}
		for i := 0; i < len(pairs); i += 2 {
			if s.labels.Get(pairs[i]) != pairs[i+1] {
				continue next
			}
		}
		sum += s.value
	}
	return sum
}

// expectTotal fails unless a sum is exactly as wanted.
func (g *gateway) expectTotal(want float64, name string, pairs ...string) {
	g.t.Helper()
	if got := total(g.scrape(), name, pairs...); got != want {
		g.t.Errorf("%s%q is %v, want %v", name, pairs, got, want)
	}
}

// untilEOF returns the samples where a parser ended as it should.
func untilEOF(t *testing.T, err error, samples []sample) []sample {
	t.Helper()
	if !errors.Is(err, io.EOF) {
		t.Fatalf("/metrics does not parse: %v", err)
	}
	return samples
}
