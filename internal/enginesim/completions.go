package enginesim

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// defaultCompletionTokens is the output limit of /v1/completions when the request
// names none, as OpenAI's API has it.
const defaultCompletionTokens = 16

type completionChoice struct {
	Index        int       `json:"index"`
	Text         string    `json:"text"`
	Logprobs     *struct{} `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

type completion struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	Model   string             `json:"model"`
	Choices []completionChoice `json:"choices"`
	Usage   *openAIUsage       `json:"usage,omitempty"`
}

// serveCompletions is POST /v1/completions.
func (e *Engine) serveCompletions(w http.ResponseWriter, r *http.Request, x *exchange, f fields) error {
	g, err := e.parseGeneration(f, "cmpl-", "max_tokens")
	if err != nil {
		return err
	}
	if g.limits.maxTokens == 0 {
		g.limits.maxTokens = defaultCompletionTokens
	}
	prompts, err := e.parsePrompts(f, "prompt")
	if err != nil {
		return err
	}
	for _, prompt := range prompts {
		if err := e.checkLength(prompt); err != nil {
			return err
		}
	}
	seqs := e.sequences(g, prompts...)
	if g.stream {
		return e.streamCompletions(w, r, x, g, seqs)
	}
	if err := e.run(r.Context(), x, seqs, discardToken); err != nil {
		return err
	}
	answer := completion{ID: g.id, Object: "text_completion", Created: g.created, Model: g.model, Usage: g.usage(seqs)}
	for i, s := range seqs {
		reason := openAIFinish(s)
		answer.Choices = append(answer.Choices, completionChoice{Index: i, Text: s.text.String(), FinishReason: &reason})
	}
	x.finish()
	writeJSON(w, http.StatusOK, answer)
	return nil
}

func (e *Engine) streamCompletions(w http.ResponseWriter, r *http.Request, x *exchange, g generation, seqs []*sequence) error {
	events := newEventWriter(w)
	send := func(choices []completionChoice, usage *openAIUsage) error {
		return events.event("", completion{
			ID: g.id, Object: "text_completion", Created: g.created, Model: g.model, Choices: choices, Usage: usage,
		})
	}
	err := e.runStream(r.Context(), x, events, seqs, func(i int, token string) error {
		choice := completionChoice{Index: i, Text: token}
		if s := seqs[i]; s.outputTokens == s.length {
			reason := openAIFinish(s)
			choice.FinishReason = &reason
		}
		return send([]completionChoice{choice}, nil)
	})
	if err != nil {
		return err
	}
	if g.includeUsage {
		if err := send([]completionChoice{}, g.usage(seqs)); err != nil {
			return err
		}
	}
	x.finish()
	return events.done()
}

// parsePrompts reads a member that is a string, an array of token numbers, or an
// array of either.
func (e *Engine) parsePrompts(f fields, name string) ([]*tokenChain, error) {
	refusal := invalid(name, "%s must be a string, an array of token numbers, or a non-empty array of either", name)
	if !f.has(name) {
		return nil, refusal
	}
	if one, ok := e.parsePrompt(f[name]); ok {
		return []*tokenChain{one}, nil
	}
	var many []json.RawMessage
	if json.Unmarshal(f[name], &many) != nil || len(many) == 0 {
		return nil, refusal
	}
	prompts := make([]*tokenChain, 0, len(many))
	for _, raw := range many {
		one, ok := e.parsePrompt(raw)
		if !ok {
			return nil, refusal
		}
		prompts = append(prompts, one)
	}
	return prompts, nil
}

func (e *Engine) parsePrompt(raw json.RawMessage) (*tokenChain, bool) {
	chain := newTokenChain(e.options.BlockSize)
	var text string
	if json.Unmarshal(raw, &text) == nil {
		chain.appendText(text)
		return chain, true
	}
	var tokens []uint32
	if json.Unmarshal(raw, &tokens) != nil || len(tokens) == 0 {
		return nil, false
	}
	for _, token := range tokens {
		chain.appendMarker(fmt.Sprint(token))
	}
	return chain, true
}
