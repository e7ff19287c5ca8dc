package enginesim

import (
	"net/http"
)

type anthropicText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type anthropicUsage struct {
	InputTokens              int `json:"input_tokens"`
	CacheCreationInputTokens int `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int `json:"cache_read_input_tokens"`
	OutputTokens             int `json:"output_tokens"`
}

type anthropicMessage struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Role         string          `json:"role"`
	Model        string          `json:"model"`
	Content      []anthropicText `json:"content"`
	StopReason   *string         `json:"stop_reason"`
	StopSequence *string         `json:"stop_sequence"`
	Usage        anthropicUsage  `json:"usage"`
}

type anthropicEvent struct {
	Type         string            `json:"type"`
	Message      *anthropicMessage `json:"message,omitempty"`
	Index        *int              `json:"index,omitempty"`
	ContentBlock *anthropicText    `json:"content_block,omitempty"`
	Delta        any               `json:"delta,omitempty"`
	Usage        *anthropicUsage   `json:"usage,omitempty"`
}

type anthropicStop struct {
	StopReason   string  `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
}

// serveMessages is POST /v1/messages, Anthropic's API.
func (e *Engine) serveMessages(w http.ResponseWriter, r *http.Request, x *exchange, f fields) error {
	g, err := e.parseGeneration(f, "msg_", "max_tokens")
	if err != nil {
		return err
	}
	if g.limits.maxTokens == 0 {
		return invalid("max_tokens", "max_tokens: this field is required")
	}
	prompt, err := e.renderAnthropic(f)
	if err != nil {
		return err
	}
	g.choices = 1
	seqs := e.sequences(g, prompt)
	if g.stream {
		return e.streamMessages(w, r, x, g, seqs[0])
	}
	if err := e.run(r.Context(), x, seqs, discardToken); err != nil {
		return err
	}
	answer := newAnthropicMessage(g, seqs[0])
	reason := anthropicFinish(seqs[0])
	answer.StopReason = &reason
	answer.Content = []anthropicText{{Type: "text", Text: seqs[0].text.String()}}
	x.finish()
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// serveCountTokens is POST /v1/messages/count_tokens.
func (e *Engine) serveCountTokens(w http.ResponseWriter, _ *http.Request, x *exchange, f fields) error {
	if _, err := e.resolveModel(f); err != nil {
		return err
	}
	prompt, err := e.renderAnthropic(f)
	if err != nil {
		return err
	}
	x.finish()
	writeJSON(w, http.StatusOK, map[string]int{"input_tokens": prompt.tokens})
	return nil
}

func (e *Engine) renderAnthropic(f fields) (*tokenChain, error) {
	turns, err := parseTurns(f, "messages")
	if err != nil {
		return nil, err
	}
	if f.has("system") {
		turns = append([]turn{{role: "system", content: f["system"]}}, turns...)
	}
	return e.renderChat(f["tools"], turns)
}

// newAnthropicMessage is the message as it stands, its input counted. What came
// from the cache is not part of input_tokens in this API.
func newAnthropicMessage(g generation, s *sequence) *anthropicMessage {
	return &anthropicMessage{
		ID: g.id, Type: "message", Role: "assistant", Model: g.model, Content: []anthropicText{},
		Usage: anthropicUsage{
			InputTokens:          s.promptTokens - s.cachedTokens,
			CacheReadInputTokens: s.cachedTokens,
			OutputTokens:         s.outputTokens,
		},
	}
}

func (e *Engine) streamMessages(w http.ResponseWriter, r *http.Request, x *exchange, g generation, s *sequence) error {
	events := newEventWriter(w)
	send := func(event anthropicEvent) error { return events.event(event.Type, event) }
	index := 0
	err := e.runStream(r.Context(), x, events, []*sequence{s}, func(_ int, token string) error {
		if s.outputTokens == 1 {
			for _, event := range []anthropicEvent{
				{Type: "message_start", Message: newAnthropicMessage(g, s)},
				{Type: "content_block_start", Index: &index, ContentBlock: &anthropicText{Type: "text"}},
				{Type: "ping"},
			} {
				if err := send(event); err != nil {
					return err
				}
			}
		}
		return send(anthropicEvent{Type: "content_block_delta", Index: &index, Delta: anthropicText{Type: "text_delta", Text: token}})
	})
	if err != nil {
		return err
	}
	if err := send(anthropicEvent{Type: "content_block_stop", Index: &index}); err != nil {
		return err
	}
	usage := newAnthropicMessage(g, s).Usage
	stop := anthropicEvent{Type: "message_delta", Delta: anthropicStop{StopReason: anthropicFinish(s)}, Usage: &usage}
	if err := send(stop); err != nil {
		return err
	}
	x.finish()
	return send(anthropicEvent{Type: "message_stop"})
}

func anthropicFinish(s *sequence) string {
	if s.cut() {
		return "max_tokens"
	}
	return "end_turn"
}
