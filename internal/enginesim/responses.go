package enginesim

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
)

type outputText struct {
	Type        string     `json:"type"`
	Text        string     `json:"text"`
	Annotations []struct{} `json:"annotations"`
	Logprobs    []struct{} `json:"logprobs"`
}

type outputMessage struct {
	ID      string       `json:"id"`
	Type    string       `json:"type"`
	Role    string       `json:"role"`
	Status  string       `json:"status"`
	Content []outputText `json:"content"`
}

type responseUsage struct {
	InputTokens        int `json:"input_tokens"`
	InputTokensDetails struct {
		CachedTokens     int `json:"cached_tokens"`
		CacheWriteTokens int `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens        int `json:"output_tokens"`
	OutputTokensDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

// response is the Response object. Members that the request set are given back
// as they came; raw null stands for those it left out.
type response struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	CreatedAt          int64              `json:"created_at"`
	Status             string             `json:"status"`
	Error              *struct{}          `json:"error"`
	IncompleteDetails  *incompleteDetails `json:"incomplete_details"`
	Instructions       json.RawMessage    `json:"instructions"`
	MaxOutputTokens    json.RawMessage    `json:"max_output_tokens"`
	Metadata           json.RawMessage    `json:"metadata"`
	Model              string             `json:"model"`
	Output             []outputMessage    `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	PreviousResponseID json.RawMessage    `json:"previous_response_id"`
	Store              bool               `json:"store"`
	Temperature        float64            `json:"temperature"`
	ToolChoice         json.RawMessage    `json:"tool_choice"`
	Tools              json.RawMessage    `json:"tools"`
	TopP               float64            `json:"top_p"`
	Usage              *responseUsage     `json:"usage"`
}

// serveResponses is POST /v1/responses.
func (e *Engine) serveResponses(w http.ResponseWriter, r *http.Request, x *exchange, f fields) error {
	g, err := e.parseGeneration(f, "resp_", "max_output_tokens")
	if err != nil {
		return err
	}
	g.choices = 1
	store, err := f.flag("store", true)
	if err != nil {
		return err
	}
	history, err := e.responseHistory(f)
	if err != nil {
		return err
	}
	turns := history
	if f.has("instructions") {
		turns = append([]turn{{role: "system", content: f["instructions"]}}, history...)
	}
	prompt, err := e.renderChat(f["tools"], turns)
	if err != nil {
		return err
	}
	s := e.sequences(g, prompt)[0]
	answer := newResponse(g, f, store)
	message := outputMessage{ID: e.newID("msg_"), Type: "message", Role: "assistant", Status: "in_progress", Content: []outputText{}}
	if g.stream {
		return e.streamResponse(w, r, x, answer, message, s, history)
	}
	if err := e.run(r.Context(), x, []*sequence{s}, discardToken); err != nil {
		return err
	}
	answer.complete(message, s)
	e.rememberResponse(answer, history, s)
	x.finish()
	writeJSON(w, http.StatusOK, answer)
	return nil
}

func newResponse(g generation, f fields, store bool) *response {
	or := func(name, fallback string) json.RawMessage {
		if f.has(name) {
			return f[name]
		}
		return json.RawMessage(fallback)
	}
	return &response{
		ID: g.id, Object: "response", CreatedAt: g.created, Status: "in_progress", Model: g.model,
		Instructions: or("instructions", "null"), MaxOutputTokens: or("max_output_tokens", "null"),
		Metadata: or("metadata", "{}"), PreviousResponseID: or("previous_response_id", "null"),
		ToolChoice: or("tool_choice", `"auto"`), Tools: or("tools", "[]"),
		Output: []outputMessage{}, ParallelToolCalls: true, Store: store, Temperature: 1, TopP: 1,
	}
}

// complete fills in the answer of s and returns the message as it ended.
func (a *response) complete(message outputMessage, s *sequence) outputMessage {
	a.Status = "completed"
	if s.cut() {
		a.Status = "incomplete"
		a.IncompleteDetails = &incompleteDetails{Reason: "max_output_tokens"}
	}
	message.Status = a.Status
	message.Content = []outputText{newOutputText(s.text.String())}
	a.Output = []outputMessage{message}
	a.Usage = &responseUsage{InputTokens: s.promptTokens, OutputTokens: s.outputTokens, TotalTokens: s.promptTokens + s.outputTokens}
	a.Usage.InputTokensDetails.CachedTokens = s.cachedTokens
	return message
}

func newOutputText(text string) outputText {
	return outputText{Type: "output_text", Text: text, Annotations: []struct{}{}, Logprobs: []struct{}{}}
}

// responseHistory gives the turns that the model reads after the instructions:
// those of the previous response, its answer, and the new input.
func (e *Engine) responseHistory(f fields) ([]turn, error) {
	previous, err := f.text("previous_response_id")
	if err != nil {
		return nil, err
	}
	var history []turn
	if previous != "" {
		stored, ok := e.responses.get(previous)
		if !ok {
			return nil, apiError{
				status: http.StatusNotFound, param: "previous_response_id", code: "previous_response_not_found",
				message: "this engine holds no response with id " + previous,
			}
		}
		history = slices.Clone(stored)
	}
	input, err := parseInput(f)
	return append(history, input...), err
}

// parseInput reads input: a string, or an array of items. An item that is not a
// message is read as a turn of its own type, whole.
func parseInput(f fields) ([]turn, error) {
	refusal := invalid("input", "input must be a string or a non-empty array of items")
	if !f.has("input") {
		return nil, refusal
	}
	if f["input"][0] == '"' {
		return []turn{{role: "user", content: f["input"]}}, nil
	}
	var raw []json.RawMessage
	var items []fields
	if json.Unmarshal(f["input"], &raw) != nil || json.Unmarshal(f["input"], &items) != nil || len(items) == 0 {
		return nil, refusal
	}
	turns := make([]turn, 0, len(items))
	for i, item := range items {
		role, err := item.text("role")
		if err != nil {
			return nil, invalid("input", "input[%d].role must be a string", i)
		}
		kind, err := item.text("type")
		if err != nil || (role == "" && kind == "") {
			return nil, invalid("input", "input[%d] must be an item with a role or a type", i)
		}
		if role != "" {
			turns = append(turns, turn{role: role, content: item["content"]})
		} else {
			turns = append(turns, turn{role: kind, calls: raw[i]})
		}
	}
	return turns, nil
}

// keptResponses bounds the responses that previous_response_id can name.
const keptResponses = 1024

// responseStore keeps the turns of the latest responses. Safe for concurrent use.
type responseStore struct {
	mu    sync.Mutex
	turns map[string][]turn
	order []string
}

func (s *responseStore) get(id string) ([]turn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	turns, ok := s.turns[id]
	return turns, ok
}

func (s *responseStore) put(id string, turns []turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turns == nil {
		s.turns = make(map[string][]turn)
	}
	s.turns[id] = turns
	s.order = append(s.order, id)
	if len(s.order) > keptResponses {
		delete(s.turns, s.order[0])
		s.order = s.order[1:]
	}
}

// rememberResponse stores the conversation with the answer at its end, unless the
// request said store: false.
func (e *Engine) rememberResponse(answer *response, history []turn, s *sequence) {
	if !answer.Store {
		return
	}
	text, err := json.Marshal(s.text.String())
	if err != nil {
		return
	}
	e.responses.put(answer.ID, append(slices.Clone(history), turn{role: "assistant", content: text}))
}
