package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
)

func TestAnthropicMessages(t *testing.T) {
	t.Parallel()
	g := serveSDK(t)
	c := anthropic.NewClient(option.WithBaseURL(g.url), option.WithAPIKey("test"),
		option.WithMaxRetries(0), option.WithRequestTimeout(patience))
	params := anthropic.MessageNewParams{Model: "chat", MaxTokens: 20,
		System:   []anthropic.TextBlockParam{{Text: "Be terse."}},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello"))}}
	whole, err := c.Messages.New(context.Background(), params)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole.Content) != 1 || whole.Content[0].Text == "" || whole.Usage.OutputTokens != 20 {
		t.Errorf("answer: %s", whole.RawJSON())
	}

	stream := c.Messages.NewStreaming(context.Background(), params)
	var message anthropic.Message
	for stream.Next() {
		if err := message.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if len(message.Content) != 1 || message.Content[0].Text != whole.Content[0].Text || message.StopReason != whole.StopReason {
		t.Errorf("streamed %s, whole %s", message.RawJSON(), whole.RawJSON())
	}

	params.Model = "no-such-model"
	_, err = c.Messages.New(context.Background(), params)
	var failure *anthropic.Error
	if !errors.As(err, &failure) {
		t.Fatalf("error of type %T: %v", err, err)
	}
	var body struct {
		Type  string `json:"type"`
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(failure.RawJSON()), &body); err != nil {
		t.Fatalf("%v: %s", err, failure.RawJSON())
	}
	if failure.StatusCode != http.StatusNotFound || body.Type != "error" || failure.Message == "" ||
		string(failure.Type()) == "" {
		t.Errorf("status %d, type %q, error %s", failure.StatusCode, failure.Type(), failure.RawJSON())
	}
}
