package enginesim

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const system = "You are an assistant whose instructions are long enough to fill more than one block of the prefix cache, " +
	"as they are in any product that is worth routing for; answer briefly, in plain words, and never twice the same way."

func chatBody(extra string, contents ...string) string {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	messages := []message{{"system", system}}
	for i, content := range contents {
		messages = append(messages, message{[]string{"user", "assistant"}[i%2], content})
	}
	text, _ := json.Marshal(messages)
	return `{"model":"m","messages":` + string(text) + extra + `}`
}

func TestChat(t *testing.T) {
	e := start(t, Options{Name: "one"})
	answer := post[chatCompletion](t, e.URL()+"/v1/chat/completions", chatBody("", "Hello"))
	if answer.Object != "chat.completion" || answer.Model != "m" || !strings.HasPrefix(answer.ID, "chatcmpl-") || answer.Created == 0 {
		t.Errorf("head of %+v", answer)
	}
	choice := answer.Choices[0]
	if choice.Message.Role != "assistant" || choice.Message.Content == "" || choice.FinishReason != "stop" {
		t.Errorf("choice %+v", choice)
	}
	if u := answer.Usage; u.CompletionTokens != DefaultOutputTokens || u.TotalTokens != u.PromptTokens+u.CompletionTokens ||
		u.PromptTokensDetails.CachedTokens != 0 {
		t.Errorf("usage %+v", u)
	}
	again := post[chatCompletion](t, start(t, Options{Name: "two"}).URL()+"/v1/chat/completions", chatBody("", "Hello"))
	if again.Choices[0].Message.Content != choice.Message.Content || again.ID == answer.ID {
		t.Error("two engines gave two texts, or one id, for one prompt")
	}
	cut := post[chatCompletion](t, e.URL()+"/v1/chat/completions", chatBody(`,"max_tokens":9,"max_completion_tokens":5`, "Hello"))
	if cut.Choices[0].FinishReason != "length" || cut.Usage.CompletionTokens != 5 {
		t.Errorf("cut answer %+v, usage %+v", cut.Choices[0], cut.Usage)
	}
	long := post[chatCompletion](t, e.URL()+"/v1/chat/completions", chatBody(`,"max_tokens":200,"ignore_eos":true,"n":2`, "Hello"))
	if len(long.Choices) != 2 || long.Choices[0].Message.Content == long.Choices[1].Message.Content || long.Usage.CompletionTokens != 400 {
		t.Errorf("two choices of 200 tokens: %d, usage %+v", len(long.Choices), long.Usage)
	}
}

// Each turn of a conversation finds everything before its own words in the cache,
// the engine's answers included.
func TestConversationHitsItsHistory(t *testing.T) {
	e := start(t, Options{})
	contents := []string{"What is a ring?"}
	before := 0
	for turn := range 8 {
		answer := post[chatCompletion](t, e.URL()+"/v1/chat/completions", chatBody("", contents...))
		u := answer.Usage
		if cached := u.PromptTokensDetails.CachedTokens; cached > u.PromptTokens || cached < before-DefaultBlockSize {
			t.Errorf("turn %d: %d of %d tokens cached, want all but a block of the %d known", turn, cached, u.PromptTokens, before)
		}
		before = u.TotalTokens
		contents = append(contents, answer.Choices[0].Message.Content, fmt.Sprintf("And question %d?", turn))
	}
	other := post[chatCompletion](t, e.URL()+"/v1/chat/completions", chatBody("", "Another opening"))
	if cached := other.Usage.PromptTokensDetails.CachedTokens; cached < 32 || cached > 64 {
		t.Errorf("another conversation shares %d tokens, want about the system prompt's", cached)
	}
}

func TestChatStream(t *testing.T) {
	e := start(t, Options{OutputTokens: 6})
	_, whole := send(t, http.MethodPost, e.URL()+"/v1/chat/completions", chatBody("", "Hi"))
	want := decode[chatCompletion](t, string(whole)).Choices[0].Message.Content
	f := func(extra string, wantUsage bool) {
		t.Helper()
		_, stream := send(t, http.MethodPost, e.URL()+"/v1/chat/completions", chatBody(`,"stream":true`+extra, "Hi"))
		all := events(t, stream)
		if last := all[len(all)-1].data; last != "[DONE]" {
			t.Fatalf("last event %q", last)
		}
		var text string
		var reasons []string
		var usage *openAIUsage
		for i, event := range all[:len(all)-1] {
			chunk := decode[chatChunk](t, event.data)
			if chunk.Object != "chat.completion.chunk" || event.name != "" {
				t.Fatalf("event %d: %+v", i, event)
			}
			if chunk.Usage != nil {
				usage = chunk.Usage
			}
			for _, choice := range chunk.Choices {
				if (choice.Delta.Role == "assistant") != (i == 0) {
					t.Errorf("event %d has role %q", i, choice.Delta.Role)
				}
				if choice.Delta.Content != nil {
					text += *choice.Delta.Content
				}
				if choice.FinishReason != nil {
					reasons = append(reasons, *choice.FinishReason)
				}
			}
		}
		if text != want || !slices.Equal(reasons, []string{"stop"}) {
			t.Errorf("text %q with reasons %v, want %q and one stop", text, reasons, want)
		}
		if (usage != nil) != wantUsage || wantUsage && (usage.CompletionTokens != 6 || usage.PromptTokensDetails.CachedTokens == 0) {
			t.Errorf("usage %+v, want one: %v", usage, wantUsage)
		}
	}
	f("", false)
	f(`,"stream_options":{"include_usage":true}`, true)
	f(`,"stream_options":{"include_usage":false}`, false)
}

func TestCompletions(t *testing.T) {
	e := start(t, Options{})
	url := e.URL() + "/v1/completions"
	f := func(prompt string, wantChoices int) {
		t.Helper()
		answer := post[completion](t, url, `{"prompt":`+prompt+`,"n":2}`)
		if len(answer.Choices) != wantChoices || answer.Object != "text_completion" || answer.Usage.CompletionTokens != wantChoices*16 {
			t.Errorf("prompt %s: %d choices, usage %+v, want %d", prompt, len(answer.Choices), answer.Usage, wantChoices)
		}
		_, stream := send(t, http.MethodPost, url, `{"stream":true,"prompt":`+prompt+`,"n":2}`)
		texts := make([]string, wantChoices)
		all := events(t, stream)
		for _, event := range all[:len(all)-1] {
			choice := decode[completion](t, event.data).Choices[0]
			texts[choice.Index] += choice.Text
		}
		for i, text := range texts {
			if text != answer.Choices[i].Text || *answer.Choices[i].FinishReason != "length" {
				t.Errorf("prompt %s choice %d: streamed %q, whole %q", prompt, i, text, answer.Choices[i].Text)
			}
		}
	}
	f(`"Once upon"`, 2)
	f(`["Once upon","a time"]`, 4)
	f(`[1,2,3]`, 2)
	f(`[[1,2],[3]]`, 4)
}

func TestResponses(t *testing.T) {
	e := start(t, Options{OutputTokens: 5})
	url := e.URL() + "/v1/responses"
	first := post[response](t, url, `{"input":"Hello","instructions":"Be brief.","metadata":{"a":"b"}}`)
	if first.Object != "response" || first.Status != "completed" || string(first.Metadata) != `{"a":"b"}` {
		t.Errorf("response %+v", first)
	}
	text := first.Output[0].Content[0].Text
	_, stream := send(t, http.MethodPost, url, `{"input":[{"role":"user","content":[{"type":"input_text","text":"Hello"}]}],"instructions":"Be brief.","stream":true}`)
	var names []string
	streamed := ""
	for i, event := range events(t, stream) {
		names = append(names, event.name)
		body := decode[struct {
			eventHead
			Delta    string
			Text     string
			Response *response
		}](t, event.data)
		if body.Type != event.name || body.SequenceNumber != i {
			t.Errorf("event %d is %s, says %s and number %d", i, event.name, body.Type, body.SequenceNumber)
		}
		streamed += body.Delta
		if event.name == "response.output_text.done" && body.Text != text {
			t.Errorf("done with %q, want %q", body.Text, text)
		}
		if event.name == "response.completed" && (body.Response.Output[0].Content[0].Text != text || body.Response.Usage.OutputTokens != 5) {
			t.Errorf("completed with %+v", body.Response)
		}
	}
	delta := "response.output_text.delta"
	want := []string{
		"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
		delta, delta, delta, delta, delta,
		"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if streamed != text {
		t.Errorf("streamed %q, want %q", streamed, text)
	}
	cut := post[response](t, url, `{"input":"Hello","max_output_tokens":2}`)
	if cut.Status != "incomplete" || cut.IncompleteDetails.Reason != "max_output_tokens" {
		t.Errorf("cut response %+v", cut)
	}
}

func TestResponsesChain(t *testing.T) {
	e := start(t, Options{})
	url := e.URL() + "/v1/responses"
	first := post[response](t, url, `{"input":"Hello"}`)
	second := post[response](t, url, `{"input":"Go on","previous_response_id":"`+first.ID+`"}`)
	if known := first.Usage.TotalTokens; second.Usage.InputTokens <= known || second.Usage.InputTokensDetails.CachedTokens < known-DefaultBlockSize {
		t.Errorf("first %+v, second %+v: the chain was not read or not cached", first.Usage, second.Usage)
	}
	loose := post[response](t, url, `{"input":"Hello","store":false}`)
	for _, id := range []string{loose.ID, "resp_unknown"} {
		r, text := send(t, http.MethodPost, url, `{"input":"x","previous_response_id":"`+id+`"}`)
		if r.StatusCode != http.StatusNotFound || !strings.Contains(string(text), "previous_response_not_found") {
			t.Errorf("previous %s: %s %s", id, r.Status, text)
		}
	}
	for i := range keptResponses + 1 {
		e.responses.put(fmt.Sprint(i), nil)
	}
	if _, ok := e.responses.get(first.ID); ok || len(e.responses.turns) != keptResponses {
		t.Errorf("%d responses kept, want the latest %d", len(e.responses.turns), keptResponses)
	}
}

func TestMessages(t *testing.T) {
	e := start(t, Options{OutputTokens: 4})
	url := e.URL() + "/v1/messages"
	body := func(extra string) string {
		return `{"model":"m","max_tokens":100,"system":[{"type":"text","text":"` + system + `","cache_control":{"type":"ephemeral"}}],` +
			`"messages":[{"role":"user","content":"Hello"}]` + extra + `}`
	}
	first := post[anthropicMessage](t, url, body(""))
	if first.Type != "message" || first.Role != "assistant" || *first.StopReason != "end_turn" || first.Usage.CacheReadInputTokens != 0 {
		t.Errorf("message %+v", first)
	}
	count := post[map[string]int](t, url+"/count_tokens", body(""))["input_tokens"]
	if count != first.Usage.InputTokens {
		t.Errorf("counted %d tokens, used %d", count, first.Usage.InputTokens)
	}
	r, stream := send(t, http.MethodPost, url, body(`,"stream":true`))
	if r.Header.Get("Request-Id") == "" {
		t.Error("no Request-Id")
	}
	var names []string
	text := ""
	for _, event := range events(t, stream) {
		names = append(names, event.name)
		got := decode[struct {
			Type    string
			Message *anthropicMessage
			Delta   struct {
				Text       string
				StopReason string `json:"stop_reason"`
			}
			Usage *anthropicUsage
		}](t, event.data)
		if got.Type != event.name {
			t.Errorf("event %s says %s", event.name, got.Type)
		}
		text += got.Delta.Text
		switch event.name {
		case "message_start":
			if u := got.Message.Usage; u.CacheReadInputTokens == 0 || u.CacheReadInputTokens+u.InputTokens != count {
				t.Errorf("usage at the start %+v, want %d in all, some from the cache", u, count)
			}
		case "message_delta":
			if got.Delta.StopReason != "end_turn" || got.Usage.OutputTokens != 4 {
				t.Errorf("end %s", event.data)
			}
		}
	}
	delta := "content_block_delta"
	want := []string{
		"message_start", "content_block_start", "ping", delta, delta, delta, delta,
		"content_block_stop", "message_delta", "message_stop",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if text != first.Content[0].Text {
		t.Errorf("streamed %q, whole %q", text, first.Content[0].Text)
	}
}

func TestEmbeddings(t *testing.T) {
	e := start(t, Options{})
	url := e.URL() + "/v1/embeddings"
	type floats struct {
		Data  []struct{ Embedding []float32 }
		Usage embeddingUsage
	}
	type coded struct{ Data []struct{ Embedding string } }
	plain := post[floats](t, url, `{"input":["some text","other text"],"dimensions":8}`)
	if len(plain.Data) != 2 || len(plain.Data[0].Embedding) != 8 || plain.Usage.PromptTokens != 4 {
		t.Fatalf("embeddings %+v", plain)
	}
	length := 0.0
	for _, value := range plain.Data[0].Embedding {
		length += float64(value) * float64(value)
	}
	if math.Abs(length-1) > 1e-5 || cmp.Equal(plain.Data[0], plain.Data[1]) {
		t.Errorf("vectors %v, want different ones of length 1", plain.Data)
	}
	raw, err := base64.StdEncoding.DecodeString(post[coded](t, url, `{"input":"some text","dimensions":8,"encoding_format":"base64"}`).Data[0].Embedding)
	if err != nil || len(raw) != 4*8 {
		t.Fatalf("%d bytes of base64, error %v", len(raw), err)
	}
	for i, want := range plain.Data[0].Embedding {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); got != want {
			t.Errorf("value %d: %v in base64, %v as float", i, got, want)
		}
	}
}

func TestModels(t *testing.T) {
	lenient := start(t, Options{Model: "org/any"})
	strict := start(t, Options{ServedModelNames: []string{"a", "b"}})
	ids := func(e *Engine) (ids []string) {
		_, text := send(t, http.MethodGet, e.URL()+"/v1/models", "")
		for _, entry := range decode[modelList](t, string(text)).Data {
			ids = append(ids, entry.ID)
		}
		return ids
	}
	if got := ids(lenient); !slices.Equal(got, []string{"org/any"}) {
		t.Errorf("lenient engine lists %v", got)
	}
	if got := ids(strict); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("strict engine lists %v", got)
	}
	f := func(e *Engine, method, path, body string, want int) {
		t.Helper()
		r, text := send(t, method, e.URL()+path, body)
		if r.StatusCode != want {
			t.Errorf("%s %s %s: %s %s, want %d", method, path, body, r.Status, text, want)
		}
		if want == http.StatusNotFound && !strings.Contains(string(text), "does not exist") {
			t.Errorf("404 without saying that the model does not exist: %s", text)
		}
	}
	f(lenient, http.MethodGet, "/v1/models/org/any", "", 200)
	f(lenient, http.MethodGet, "/v1/models/other", "", 404)
	f(lenient, http.MethodPost, "/v1/completions", `{"model":"other","prompt":"x"}`, 200)
	f(strict, http.MethodPost, "/v1/completions", `{"model":"b","prompt":"x"}`, 200)
	f(strict, http.MethodPost, "/v1/completions", `{"prompt":"x"}`, 200)
	f(strict, http.MethodPost, "/v1/completions", `{"model":"c","prompt":"x"}`, 404)
	f(strict, http.MethodPost, "/v1/embeddings", `{"model":"c","input":"x"}`, 404)
	f(strict, http.MethodPost, "/v1/messages", `{"model":"c","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`, 404)
}

func TestRefusals(t *testing.T) {
	e := start(t, Options{MaxModelLen: 64, MaxBodyBytes: 4096})
	f := func(path, body string, status int, want string) {
		t.Helper()
		r, text := send(t, http.MethodPost, e.URL()+path, body)
		if r.StatusCode != status || !strings.Contains(string(text), want) {
			t.Errorf("POST %s %.80s: %s %s, want %d with %q", path, body, r.Status, text, status, want)
			return
		}
		if isAnthropic(path) {
			if got := decode[anthropicError](t, string(text)); got.Type != "error" || got.Error.Type == "" || got.RequestID == "" {
				t.Errorf("not Anthropic's shape: %s", text)
			}
		} else if got := decode[map[string]openAIError](t, string(text))["error"]; got.Type != "invalid_request_error" || got.Message == "" {
			t.Errorf("not OpenAI's shape: %s", text)
		}
	}
	const chat, messages, completions = "/v1/chat/completions", "/v1/messages", "/v1/completions"
	f(chat, `{`, 400, "not a JSON object")
	f(chat, ``, 400, "not a JSON object")
	f(chat, `[]`, 400, "not a JSON object")
	f(chat, `null`, 400, "null")
	f(chat, "\x1f\x8b\x08", 400, "not a JSON object")
	f(chat, `{}`, 400, "messages must be")
	f(chat, `{"messages":[]}`, 400, "messages must be")
	f(chat, `{"messages":[{"content":"x"}]}`, 400, "messages[0].role")
	f(chat, `{"messages":[{"role":"user","content":7}]}`, 400, "message 0: content must be")
	f(chat, `{"messages":[{"role":"user","content":[7]}]}`, 400, "a part of the content")
	f(chat, `{"model":7}`, 400, "model must be a string")
	f(chat, `{"stream":"yes"}`, 400, "stream must be true or false")
	f(chat, `{"n":99}`, 400, "at most 16")
	f(chat, `{"max_tokens":0}`, 400, "max_tokens must be an integer of at least 1")
	f(chat, `{"max_tokens":1.5}`, 400, "max_tokens must be an integer")
	f(chat, `{"stream_options":[]}`, 400, "stream_options must be an object")
	f(completions, `{}`, 400, "prompt must be")
	f(completions, `{"prompt":[]}`, 400, "prompt must be")
	f(completions, `{"prompt":["a",7]}`, 400, "prompt must be")
	f(completions, `{"prompt":"`+strings.Repeat("a b ", 40)+`"}`, 400, "context_length_exceeded")
	f(completions, `{"prompt":"`+strings.Repeat("a", 5000)+`"}`, 413, "--max-body-bytes")
	f("/v1/responses", `{}`, 400, "input must be")
	f("/v1/responses", `{"input":[{}]}`, 400, "input[0]")
	f("/v1/embeddings", `{"input":"x","encoding_format":"hex"}`, 400, "hex")
	f("/v1/embeddings", `{"input":"x","dimensions":99999}`, 400, "at most")
	f(messages, `{`, 400, "invalid_request_error")
	f(messages, `{"messages":[{"role":"user","content":"x"}]}`, 400, "max_tokens: this field is required")
	f(messages+"/count_tokens", `{}`, 400, "messages must be")
	f(messages, strings.Repeat(" ", 5000), 413, "request_too_large")
	f("/v1/unknown", `{}`, 404, "no such path")

	r, _ := send(t, http.MethodGet, e.URL()+chat, "")
	if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "POST" {
		t.Errorf("GET on chat: %s, Allow %q", r.Status, r.Header.Get("Allow"))
	}
	short := post[completion](t, e.URL()+completions, `{"prompt":"`+strings.Repeat("a b ", 28)+`"}`)
	if u := short.Usage; u.TotalTokens != 64 || *short.Choices[0].FinishReason != "length" {
		t.Errorf("usage %+v, want the context of 64 filled", u)
	}
}

// What the engines' own parser accepts beyond JSON is accepted here too.
func TestLenientBodies(t *testing.T) {
	e := start(t, Options{})
	f := func(body string) {
		t.Helper()
		r, text := send(t, http.MethodPost, e.URL()+"/v1/chat/completions", body, "Content-Type", "text/plain")
		if r.StatusCode != 200 {
			t.Errorf("%s: %s %s", body, r.Status, text)
		}
	}
	messages := `"messages":[{"role":"user","content":"NaN \" Infinity"}]`
	f("\xef\xbb\xbf{" + messages + "}")
	f(`{"temperature":NaN,"x":[Infinity,-Infinity],` + messages + `}`)
	f(`{"messages":7,"Messages":7,` + messages + `}`)
	f(`{"messages":[{"role":"user","content":"\ud800"},{"role":"assistant","content":null},{"role":"tool","content":["a",{"type":"text","text":""}]}]}`)
	f(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}},{"type":"tool_result","content":"y"}]}],"tools":[{}]}`)
}

func TestMetricsFollowTraffic(t *testing.T) {
	e := start(t, Options{ServedModelNames: []string{"llama"}, BlockSize: 8, CacheBlocks: 100, OutputTokens: 10})
	for range 2 {
		post[chatCompletion](t, e.URL()+"/v1/chat/completions", `{"messages":[{"role":"user","content":"`+system+`"}]}`)
	}
	post[completion](t, e.URL()+"/v1/completions", `{"prompt":"x","max_tokens":3}`)
	_, text := send(t, http.MethodGet, e.URL()+"/metrics", "")
	stats := e.Cache()
	const labels = `engine="0",model_name="llama"`
	for _, want := range []string{
		"vllm:generation_tokens_total{" + labels + "} 23",
		fmt.Sprintf("vllm:prompt_tokens_total{%s} %d", labels, stats.QueriedTokens),
		fmt.Sprintf("vllm:prefix_cache_queries_total{%s} %d", labels, stats.QueriedTokens),
		fmt.Sprintf("vllm:prefix_cache_hits_total{%s} %d", labels, stats.HitTokens),
		"vllm:kv_cache_usage_perc{" + labels + "} 0",
		"vllm:time_to_first_token_seconds_count{" + labels + "} 3",
		"vllm:time_to_first_token_seconds_bucket{" + labels + `,le="0.001"}`,
		`vllm:request_success_total{engine="0",finished_reason="stop",model_name="llama"} 2`,
		`vllm:request_success_total{engine="0",finished_reason="length",model_name="llama"} 1`,
		`vllm:cache_config_info{block_size="8",engine="0",model_name="llama",num_gpu_blocks="100"} 1`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if stats.HitTokens == 0 {
		t.Error("the same prompt twice, and no hit")
	}
	send(t, http.MethodPost, e.URL()+"/reset_prefix_cache", "")
	if got := e.Cache().Blocks; got != 0 {
		t.Errorf("%d blocks after a reset", got)
	}
	if c := e.Counters(); c.Started != 3 || c.Finished != 3 {
		t.Errorf("%+v, want 3 started and finished: looking at an engine does not count", c)
	}
}
