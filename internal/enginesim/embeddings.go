package enginesim

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"time"
)

// maxEmbeddingDimensions bounds the request's dimensions.
const maxEmbeddingDimensions = 16384

type embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"` // []float32, or string with their little-endian bytes in base64
}

type embeddingList struct {
	Object string         `json:"object"`
	Data   []embedding    `json:"data"`
	Model  string         `json:"model"`
	Usage  embeddingUsage `json:"usage"`
}

type embeddingUsage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

// serveEmbeddings is POST /v1/embeddings. Embedding is one prefill of all inputs,
// without the prefix cache.
func (e *Engine) serveEmbeddings(w http.ResponseWriter, r *http.Request, x *exchange, f fields) error {
	model, err := e.resolveModel(f)
	if err != nil {
		return err
	}
	format, err := f.text("encoding_format")
	if err != nil {
		return err
	}
	if format != "" && format != "float" && format != "base64" {
		return invalid("encoding_format", `encoding_format is %q; give "float" or "base64"`, format)
	}
	dimensions, err := f.count("dimensions", 1)
	if err != nil {
		return err
	}
	if dimensions == 0 {
		dimensions = e.options.EmbeddingDimensions
	}
	if dimensions > maxEmbeddingDimensions {
		return invalid("dimensions", "dimensions is %d; this engine gives at most %d", dimensions, maxEmbeddingDimensions)
	}
	inputs, err := e.parsePrompts(f, "input")
	if err != nil {
		return err
	}
	answer := embeddingList{Object: "list", Model: model}
	for i, input := range inputs {
		answer.Usage.PromptTokens += input.tokens
		vector := embed(input.digest(), dimensions)
		item := embedding{Object: "embedding", Index: i, Embedding: vector}
		if format == "base64" {
			item.Embedding = encodeVector(vector)
		}
		answer.Data = append(answer.Data, item)
	}
	answer.Usage.TotalTokens = answer.Usage.PromptTokens
	if err := e.runPrefillOnly(r, x, answer.Usage.PromptTokens); err != nil {
		return err
	}
	x.finish()
	writeJSON(w, http.StatusOK, answer)
	return nil
}

func (e *Engine) runPrefillOnly(r *http.Request, x *exchange, tokens int) error {
	ctx := r.Context()
	leave, err := e.enter(ctx, x)
	if err != nil {
		return err
	}
	defer leave()
	x.setPhase(phasePrefill)
	select {
	case e.prefillTurn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-e.prefillTurn }()
	e.metrics.promptTokens.Add(float64(tokens))
	if err := e.sleep(ctx, e.prefillTime(tokens)); err != nil {
		return err
	}
	e.metrics.finished(false)
	e.metrics.requestSeconds.Observe(time.Since(x.started).Seconds())
	return nil
}

// embed returns a vector of length 1 that depends on seed alone.
func embed(seed uint64, dimensions int) []float32 {
	source := newTextGenerator(seed)
	values := make([]float64, dimensions)
	sum := 0.0
	for i := range values {
		values[i] = float64(source.random()>>11)/(1<<52) - 1
		sum += values[i] * values[i]
	}
	vector := make([]float32, dimensions)
	for i, value := range values {
		vector[i] = float32(value / math.Sqrt(sum))
	}
	return vector
}

func encodeVector(vector []float32) string {
	raw := make([]byte, 0, 4*len(vector))
	for _, value := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(value))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
