package enginesim

import (
	"fmt"
	"slices"
	"time"
)

// maxChoices bounds n.
const maxChoices = 16

// outputLimits bound an answer's length in tokens; zero fields do not.
type outputLimits struct {
	maxTokens int
	minTokens int
	ignoreEnd bool // go on to maxTokens
}

// generation is what the generating APIs have in common.
type generation struct {
	id           string
	created      int64 // Unix seconds
	model        string
	stream       bool
	includeUsage bool
	choices      int
	limits       outputLimits
}

// parseGeneration reads the common members. limitNames are the API's names for
// the output limit, the preferred one first.
func (e *Engine) parseGeneration(f fields, idPrefix string, limitNames ...string) (g generation, err error) {
	g = generation{id: e.newID(idPrefix), created: time.Now().Unix(), choices: 1}
	if g.model, err = e.resolveModel(f); err != nil {
		return g, err
	}
	if g.stream, err = f.flag("stream", false); err != nil {
		return g, err
	}
	options, err := f.object("stream_options")
	if err != nil {
		return g, err
	}
	if g.includeUsage, err = options.flag("include_usage", false); err != nil {
		return g, err
	}
	if n, err := f.count("n", 1); err != nil {
		return g, err
	} else if n > maxChoices {
		return g, invalid("n", "n is %d; this engine gives at most %d choices", n, maxChoices)
	} else if n > 0 {
		g.choices = n
	}
	for _, name := range slices.Backward(limitNames) {
		limit, err := f.count(name, 1)
		if err != nil {
			return g, err
		}
		if limit > 0 {
			g.limits.maxTokens = limit
		}
	}
	if g.limits.minTokens, err = f.count("min_tokens", 0); err != nil {
		return g, err
	}
	g.limits.ignoreEnd, err = f.flag("ignore_eos", false)
	return g, err
}

// resolveModel returns the name that the answer carries, or a 404 where the
// engine was told the names it serves and the request's is none of them.
func (e *Engine) resolveModel(f fields) (string, error) {
	name, err := f.text("model")
	if err != nil {
		return "", err
	}
	if name == "" {
		return e.servedModels()[0], nil
	}
	if served := e.options.ServedModelNames; len(served) > 0 && !slices.Contains(served, name) {
		return "", unknownModel(name)
	}
	return name, nil
}

func unknownModel(name string) apiError {
	return apiError{status: 404, message: fmt.Sprintf("the model %q does not exist", name), param: "model", code: "model_not_found"}
}

func (e *Engine) servedModels() []string {
	if len(e.options.ServedModelNames) > 0 {
		return e.options.ServedModelNames
	}
	return []string{e.options.Model}
}

// sequences makes the generation's sequences: every prompt in turn, each with as
// many choices as asked for.
func (e *Engine) sequences(g generation, prompts ...*tokenChain) []*sequence {
	seqs := make([]*sequence, 0, len(prompts)*g.choices)
	for _, prompt := range prompts {
		for choice := range g.choices {
			seqs = append(seqs, e.newSequence(prompt, choice, g.limits))
		}
	}
	return seqs
}

type openAIUsage struct {
	PromptTokens        int                `json:"prompt_tokens"`
	CompletionTokens    int                `json:"completion_tokens"`
	TotalTokens         int                `json:"total_tokens"`
	PromptTokensDetails promptTokensDetail `json:"prompt_tokens_details"`
}

type promptTokensDetail struct {
	CachedTokens int `json:"cached_tokens"`
}

// usage sums up seqs. The choices of one prompt count it once, with what the
// first of them found in the cache.
func (g generation) usage(seqs []*sequence) *openAIUsage {
	u := &openAIUsage{}
	for i, s := range seqs {
		if i%g.choices == 0 {
			u.PromptTokens += s.promptTokens
			u.PromptTokensDetails.CachedTokens += s.cachedTokens
		}
		u.CompletionTokens += s.outputTokens
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// openAIFinish is OpenAI's finish_reason.
func openAIFinish(s *sequence) string {
	if s.cut() {
		return "length"
	}
	return "stop"
}
