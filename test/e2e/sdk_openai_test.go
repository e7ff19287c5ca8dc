package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"flexinfer.ai/gateway/internal/enginesim"
)

// serveSDK serves one Model "chat" by the name in the body, over three engines.
func serveSDK(t *testing.T) *gateway {
	t.Helper()
	engines := startEngines(t, 3, enginesim.Options{OutputTokens: 24})
	return serve(t, map[string]string{"all.yaml": gatewayYAML +
		modelYAML("chat", strategy("session-affinity")) + serviceYAML(t, "chat", ready(engines)...) + byModelNameYAML("chat")})
}

func openAI(g *gateway) openai.Client {
	return openai.NewClient(option.WithBaseURL(g.url+"/v1/"), option.WithAPIKey("test"),
		option.WithMaxRetries(0), option.WithRequestTimeout(patience))
}

func TestOpenAIChat(t *testing.T) {
	t.Parallel()
	c := openAI(serveSDK(t))
	params := openai.ChatCompletionNewParams{Model: "chat", Messages: []openai.ChatCompletionMessageParamUnion{
		openai.SystemMessage("You are terse."), openai.UserMessage("Hello")}}
	whole, err := c.Chat.Completions.New(context.Background(), params)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole.Choices) != 1 || whole.Choices[0].Message.Content == "" || whole.Usage.CompletionTokens != 24 {
		t.Errorf("answer: %s", whole.RawJSON())
	}

	stream := c.Chat.Completions.NewStreaming(context.Background(), params)
	var text strings.Builder
	chunks := 0
	for stream.Next() {
		chunks++
		for _, choice := range stream.Current().Choices {
			text.WriteString(choice.Delta.Content)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if text.String() != whole.Choices[0].Message.Content || chunks < 24 {
		t.Errorf("streamed %q in %d chunks, whole %q", &text, chunks, whole.Choices[0].Message.Content)
	}

	// The second request for the same prompt finds it in the same engine's cache.
	params.Messages[1] = openai.UserMessage("Tell me about key-value caches, " + strings.Repeat("at great length and ", 50))
	for _, wantCached := range []bool{false, true} {
		again, err := c.Chat.Completions.New(context.Background(), params)
		if err != nil {
			t.Fatal(err)
		}
		if cached := again.Usage.PromptTokensDetails.CachedTokens > 100; cached != wantCached {
			t.Errorf("cached tokens: %d, want them: %t", again.Usage.PromptTokensDetails.CachedTokens, wantCached)
		}
	}
}

func TestOpenAIResponses(t *testing.T) {
	t.Parallel()
	c := openAI(serveSDK(t))
	params := responses.ResponseNewParams{Model: "chat", Instructions: openai.String("Be terse."),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Hello")}}
	whole, err := c.Responses.New(context.Background(), params)
	if err != nil {
		t.Fatal(err)
	}
	if whole.OutputText() == "" || whole.Status != responses.ResponseStatusCompleted {
		t.Errorf("answer: %s", whole.RawJSON())
	}

	stream := c.Responses.NewStreaming(context.Background(), params)
	var text strings.Builder
	last := ""
	for stream.Next() {
		event := stream.Current()
		last = event.Type
		if event.Type == "response.output_text.delta" {
			text.WriteString(event.Delta)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if text.String() != whole.OutputText() || last != "response.completed" {
		t.Errorf("streamed %q up to %s, whole %q", &text, last, whole.OutputText())
	}
}

func TestOpenAIEmbeddings(t *testing.T) {
	t.Parallel()
	c := openAI(serveSDK(t))
	params := openai.EmbeddingNewParams{Model: "chat",
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}}}
	floats, err := c.Embeddings.New(context.Background(), params)
	if err != nil {
		t.Fatal(err)
	}
	if len(floats.Data) != 2 || len(floats.Data[0].Embedding) != enginesim.DefaultEmbeddingDimensions {
		t.Fatalf("answer: %s", floats.RawJSON())
	}
	// This SDK has no type for the base64 form; it is looked at as it came.
	params.EncodingFormat = openai.EmbeddingNewParamsEncodingFormatBase64
	var encoded struct {
		Data []struct {
			Embedding string `json:"embedding"`
		} `json:"data"`
	}
	var body json.RawMessage
	if err := c.Post(context.Background(), "embeddings", params, &body); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &encoded); err != nil || len(encoded.Data) != 2 {
		t.Fatalf("base64 answer: %v: %s", err, body)
	}
	b, err := base64.StdEncoding.DecodeString(encoded.Data[0].Embedding)
	if err != nil || len(b) != 4*enginesim.DefaultEmbeddingDimensions {
		t.Errorf("base64 embedding: %d bytes, %v", len(b), err)
	}
}

// The gateway's own errors are errors to the SDK, with code and type.
func TestOpenAIErrors(t *testing.T) {
	t.Parallel()
	c := openAI(serveSDK(t))
	_, err := c.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
		Model: "no-such-model", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")}})
	var failure *openai.Error
	if !errors.As(err, &failure) {
		t.Fatalf("error of type %T: %v", err, err)
	}
	if failure.StatusCode != http.StatusNotFound || failure.Code != "model_not_found" || failure.Type == "" || failure.Message == "" {
		t.Errorf("status %d, error %s", failure.StatusCode, failure.RawJSON())
	}

	big := strings.Repeat("x", 33<<20)
	_, err = c.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
		Model: "chat", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(big)}})
	if !errors.As(err, &failure) {
		t.Fatalf("error of type %T: %v", err, err)
	}
	if failure.StatusCode != http.StatusRequestEntityTooLarge || failure.Code != "request_too_large" {
		t.Errorf("status %d, error %s", failure.StatusCode, failure.RawJSON())
	}
}
