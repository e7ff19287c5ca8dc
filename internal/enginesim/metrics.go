package enginesim

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bucket bounds in seconds, of the same reach as vLLM's.
var (
	firstTokenBuckets = []float64{
		0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
	requestBuckets = []float64{
		0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
	}
)

// metrics are an engine's figures under vLLM's names, in a registry of their own.
type metrics struct {
	handler http.Handler

	promptTokens      prometheus.Counter
	generationTokens  prometheus.Counter
	firstTokenSeconds prometheus.Histogram
	queueSeconds      prometheus.Histogram
	requestSeconds    prometheus.Histogram
	stopped, cut      prometheus.Counter
}

// finished counts a sequence that came to its end.
func (m *metrics) finished(cut bool) {
	if cut {
		m.cut.Inc()
	} else {
		m.stopped.Inc()
	}
}

func newMetrics(e *Engine) *metrics {
	registry := prometheus.NewRegistry()
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"model_name": e.servedModels()[0], "engine": "0"}, registry)
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		labelled.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		labelled.MustRegister(h)
		return h
	}
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vllm:request_success_total", Help: "Sequences that came to their end, by reason.",
	}, []string{"finished_reason"})
	labelled.MustRegister(ended)
	registerStates(e, labelled)
	return &metrics{
		handler:           promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		promptTokens:      counter("vllm:prompt_tokens_total", "Prompt tokens taken in, cached ones included."),
		generationTokens:  counter("vllm:generation_tokens_total", "Tokens generated."),
		firstTokenSeconds: histogram("vllm:time_to_first_token_seconds", "Time from the request to its first token.", firstTokenBuckets),
		queueSeconds:      histogram("vllm:request_queue_time_seconds", "Time a request waited for a slot.", requestBuckets),
		requestSeconds:    histogram("vllm:e2e_request_latency_seconds", "Time from the request to its last token.", requestBuckets),
		stopped:           ended.WithLabelValues("stop"),
		cut:               ended.WithLabelValues("length"),
	}
}

// registerStates registers what is read from the engine at each scrape.
func registerStates(e *Engine, r prometheus.Registerer) {
	gauge := func(name, help string, labels prometheus.Labels, read func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, read))
	}
	counter := func(name, help string, read func() float64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read))
	}
	gauge("vllm:num_requests_running", "Requests in a slot.", nil, func() float64 { return float64(e.running.Load()) })
	gauge("vllm:num_requests_waiting", "Requests that wait for a slot.", nil, func() float64 { return float64(e.waiting.Load()) })
	gauge("vllm:kv_cache_usage_perc", "Share of cache blocks in use by running requests, 1 is all.", nil, func() float64 {
		stats := e.cache.stats()
		return float64(stats.InUse) / float64(stats.Capacity)
	})
	gauge("vllm:cache_config_info", "Size of the cache.", prometheus.Labels{
		"block_size": strconv.Itoa(e.options.BlockSize), "num_gpu_blocks": strconv.Itoa(e.options.CacheBlocks),
	}, func() float64 { return 1 })
	counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", func() float64 { return float64(e.cache.stats().QueriedTokens) })
	counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", func() float64 { return float64(e.cache.stats().HitTokens) })
}
