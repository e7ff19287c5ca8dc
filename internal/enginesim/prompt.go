package enginesim

import (
	"bytes"
	"encoding/json"
	"slices"
)

// turn is one message of a conversation, in whatever API it came.
type turn struct {
	role    string
	content json.RawMessage // string, array of parts, null or absent
	calls   json.RawMessage // tool calls beside the content, absent as a rule
}

// mediaParts are the part types, of all APIs, whose content is not text.
var mediaParts = []string{
	"image", "image_url", "input_image", "audio", "audio_url", "input_audio",
	"video", "video_url", "file", "input_file", "document",
}

// renderChat lays turns out as a chat template does: tool definitions first, then
// each turn between markers, then the opening of the assistant's turn. An answer
// appended to the result has the very tokens that it will have as history.
func (e *Engine) renderChat(tools json.RawMessage, turns []turn) (*tokenChain, error) {
	chain := newTokenChain(e.options.BlockSize)
	if len(tools) > 0 && string(tools) != "null" {
		chain.appendMarker("tools")
		chain.appendText(string(tools))
		chain.appendMarker("end")
	}
	for i, t := range turns {
		chain.appendMarker(t.role)
		if err := appendContent(chain, t.content); err != nil {
			return nil, invalid("messages", "message %d: %v", i, err)
		}
		if len(t.calls) > 0 && string(t.calls) != "null" {
			chain.appendText(string(t.calls))
		}
		chain.appendMarker("end")
	}
	chain.appendMarker("assistant")
	return chain, e.checkLength(chain)
}

func (e *Engine) checkLength(chain *tokenChain) error {
	most := e.options.MaxModelLen
	if most == 0 || chain.tokens < most {
		return nil
	}
	refusal := invalid("", "the prompt has %d tokens; this engine's context holds %d, the answer included", chain.tokens, most)
	refusal.code = "context_length_exceeded"
	return refusal
}

func appendContent(chain *tokenChain, content json.RawMessage) error {
	content = bytes.TrimSpace(content)
	if len(content) == 0 || string(content) == "null" {
		return nil
	}
	switch content[0] {
	case '"':
		var text string
		if err := json.Unmarshal(content, &text); err != nil {
			return err
		}
		chain.appendText(text)
		return nil
	case '[':
		var parts []json.RawMessage
		if err := json.Unmarshal(content, &parts); err != nil {
			return err
		}
		for _, part := range parts {
			if err := appendPart(chain, part); err != nil {
				return err
			}
		}
		return nil
	}
	return invalid("", "content must be a string, an array of parts or null")
}

func appendPart(chain *tokenChain, part json.RawMessage) error {
	if len(part) > 0 && part[0] == '"' {
		return appendContent(chain, part)
	}
	var f fields
	if err := json.Unmarshal(part, &f); err != nil || f == nil {
		return invalid("", "a part of the content must be an object or a string")
	}
	kind, err := f.text("type")
	if err != nil {
		return err
	}
	text, err := f.text("text")
	switch {
	case err != nil:
		return err
	case text != "":
		chain.appendText(text)
	case slices.Contains(mediaParts, kind):
		chain.appendOpaque(part)
	case !f.has("text"):
		chain.appendText(string(part))
	}
	return nil
}

// parseTurns reads an array of messages under the given member name.
func parseTurns(f fields, name string) ([]turn, error) {
	var messages []fields
	if !f.has(name) || json.Unmarshal(f[name], &messages) != nil || len(messages) == 0 {
		return nil, invalid(name, "%s must be an array of at least one message object", name)
	}
	turns := make([]turn, 0, len(messages))
	for i, message := range messages {
		role, err := message.text("role")
		if err != nil || role == "" {
			return nil, invalid(name, "%s[%d].role must be a string that is not empty", name, i)
		}
		turns = append(turns, turn{role: role, content: message["content"], calls: message["tool_calls"]})
	}
	return turns, nil
}
