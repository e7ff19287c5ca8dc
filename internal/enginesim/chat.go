package enginesim

import (
	"net/http"
)

type chatMessage struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Refusal *string `json:"refusal"`
}

type chatChoice struct {
	Index        int         `json:"index"`
	Message      chatMessage `json:"message"`
	Logprobs     *struct{}   `json:"logprobs"`
	FinishReason string      `json:"finish_reason"`
}

type chatCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *openAIUsage `json:"usage"`
}

type chatDelta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type chatChunkChoice struct {
	Index        int       `json:"index"`
	Delta        chatDelta `json:"delta"`
	Logprobs     *struct{} `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

type chatChunk struct {
	ID      string            `json:"id"`
	Object  string            `json:"object"`
	Created int64             `json:"created"`
	Model   string            `json:"model"`
	Choices []chatChunkChoice `json:"choices"`
	Usage   *openAIUsage      `json:"usage,omitempty"`
}

// serveChat is POST /v1/chat/completions.
func (e *Engine) serveChat(w http.ResponseWriter, r *http.Request, x *exchange, f fields) error {
	g, err := e.parseGeneration(f, "chatcmpl-", "max_completion_tokens", "max_tokens")
	if err != nil {
		return err
	}
	turns, err := parseTurns(f, "messages")
	if err != nil {
		return err
	}
	prompt, err := e.renderChat(f["tools"], turns)
	if err != nil {
		return err
	}
	seqs := e.sequences(g, prompt)
	if g.stream {
		return e.streamChat(w, r, x, g, seqs)
	}
	if err := e.run(r.Context(), x, seqs, discardToken); err != nil {
		return err
	}
	answer := chatCompletion{ID: g.id, Object: "chat.completion", Created: g.created, Model: g.model, Usage: g.usage(seqs)}
	for i, s := range seqs {
		answer.Choices = append(answer.Choices, chatChoice{
			Index:        i,
			Message:      chatMessage{Role: "assistant", Content: s.text.String()},
			FinishReason: openAIFinish(s),
		})
	}
	x.finish()
	writeJSON(w, http.StatusOK, answer)
	return nil
}

func (e *Engine) streamChat(w http.ResponseWriter, r *http.Request, x *exchange, g generation, seqs []*sequence) error {
	events := newEventWriter(w)
	send := func(choices []chatChunkChoice, usage *openAIUsage) error {
		return events.event("", chatChunk{
			ID: g.id, Object: "chat.completion.chunk", Created: g.created, Model: g.model, Choices: choices, Usage: usage,
		})
	}
	err := e.runStream(r.Context(), x, events, seqs, func(i int, token string) error {
		s := seqs[i]
		if s.outputTokens == 1 {
			opening := chatDelta{Role: "assistant", Content: new(string)}
			if err := send([]chatChunkChoice{{Index: i, Delta: opening}}, nil); err != nil {
				return err
			}
		}
		if err := send([]chatChunkChoice{{Index: i, Delta: chatDelta{Content: &token}}}, nil); err != nil {
			return err
		}
		if s.outputTokens < s.length {
			return nil
		}
		reason := openAIFinish(s)
		return send([]chatChunkChoice{{Index: i, FinishReason: &reason}}, nil)
	})
	if err != nil {
		return err
	}
	if g.includeUsage {
		if err := send([]chatChunkChoice{}, g.usage(seqs)); err != nil {
			return err
		}
	}
	x.finish()
	return events.done()
}
