package enginesim

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Defaults that a zero field of Options stands for.
const (
	DefaultModel               = "simulated"
	DefaultBlockSize           = 16
	DefaultCacheBlocks         = 8192
	DefaultMaxNumSeqs          = 256
	DefaultOutputTokens        = 48
	DefaultEmbeddingDimensions = 256
	DefaultMaxBodyBytes        = 64 << 20
)

// Options are the settings of one Engine. The zero value is an engine that
// answers as fast as it can.
type Options struct {
	// Name identifies the engine in the X-Engine header; empty: its address.
	Name string
	// Model is the name listed by /v1/models when ServedModelNames is empty; any
	// name is served then.
	Model string
	// ServedModelNames, when not empty, are the only names served; a request that
	// names another gets 404. A request without a model is served as the first.
	ServedModelNames []string

	// BlockSize is the number of tokens in one block of the prefix cache.
	BlockSize int
	// CacheBlocks bounds the prefix cache, in blocks.
	CacheBlocks int
	// MaxNumSeqs bounds the requests that run at once; others wait.
	MaxNumSeqs int
	// MaxModelLen bounds prompt plus output in tokens; over it: 400. 0: no bound.
	MaxModelLen int
	// MaxBodyBytes bounds a request body on the inference endpoints; over it: 413.
	MaxBodyBytes int64

	// PrefillTokensPerSecond is the speed of computing uncached prompt tokens,
	// shared by all requests. 0: takes no time.
	PrefillTokensPerSecond float64
	// DecodeTokensPerSecond is the speed of one sequence's output. 0: takes no time.
	DecodeTokensPerSecond float64
	// TimeScale is the number of real seconds that one simulated second takes.
	// 0: 1. A tenth makes everything ten times as fast.
	TimeScale float64

	// OutputTokens is the length of an answer that no limit of the request cuts.
	OutputTokens int
	// EmbeddingDimensions is the length of an embedding unless the request asks
	// for another.
	EmbeddingDimensions int
	// EarlyHeaders sends the header of a streamed answer when the request is
	// accepted instead of with its first token.
	EarlyHeaders bool

	// KeepAliveTimeout closes connections that were idle for so long. 0: never.
	// uvicorn, which serves vLLM, SGLang and others, has 5 s.
	KeepAliveTimeout time.Duration
	// HTTP2 also serves HTTP/2 without TLS (prior knowledge), beside HTTP/1.1.
	HTTP2 bool
	// Fault is in force from the start, when its Kind is set.
	Fault Fault
}

// Validate reports every field that no engine can work with. Zero fields are valid.
func (o Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	notNegative := func(field string, value int64) {
		check(value >= 0, "%s is %d; give 0 for the default or a positive number", field, value)
	}
	notNegative("block size", int64(o.BlockSize))
	notNegative("cache blocks", int64(o.CacheBlocks))
	notNegative("max num seqs", int64(o.MaxNumSeqs))
	notNegative("max model len", int64(o.MaxModelLen))
	notNegative("max body bytes", o.MaxBodyBytes)
	notNegative("output tokens", int64(o.OutputTokens))
	notNegative("embedding dimensions", int64(o.EmbeddingDimensions))
	check(o.PrefillTokensPerSecond >= 0, "prefill speed is %v; give tokens per second, or 0 for no waiting", o.PrefillTokensPerSecond)
	check(o.DecodeTokensPerSecond >= 0, "decode speed is %v; give tokens per second, or 0 for no waiting", o.DecodeTokensPerSecond)
	check(o.TimeScale >= 0, "time scale is %v; give a positive factor, 1 is real time", o.TimeScale)
	check(o.KeepAliveTimeout >= 0, "keep-alive timeout is %v; give a positive duration, or 0 to keep idle connections", o.KeepAliveTimeout)
	check(!slices.Contains(o.ServedModelNames, ""), "served model names hold an empty name; remove it")
	if o.Fault.Kind != "" {
		if err := o.Fault.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// withDefaults fills the fields that are zero or, from a caller that skipped
// Validate, out of range.
func (o Options) withDefaults() Options {
	positive := func(field *int, fallback int) {
		if *field <= 0 {
			*field = fallback
		}
	}
	positive(&o.BlockSize, DefaultBlockSize)
	positive(&o.CacheBlocks, DefaultCacheBlocks)
	positive(&o.MaxNumSeqs, DefaultMaxNumSeqs)
	positive(&o.OutputTokens, DefaultOutputTokens)
	positive(&o.EmbeddingDimensions, DefaultEmbeddingDimensions)
	if o.Model == "" {
		o.Model = DefaultModel
	}
	if o.MaxBodyBytes <= 0 {
		o.MaxBodyBytes = DefaultMaxBodyBytes
	}
	if o.TimeScale <= 0 {
		o.TimeScale = 1
	}
	return o
}
