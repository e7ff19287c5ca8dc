package routing

import (
	"bytes"

	"github.com/zeebo/xxh3"
)

// maxClientSessionLength is the longest value of the sources that clients fill
// in by themselves, in bytes.
const maxClientSessionLength = 1024

// SessionKey returns the session key of a request, by the first source that
// gives one: the header X-Session-Id; X-Conversation-Id; the body's session_id;
// o.SessionHeaders in order; the body's prompt_cache_key; the conversation's
// opening. The same identifier gives the same hash whatever it came from.
//
// f may be nil where there is no body.
// Cost: no allocation; linear in the opening's text where that decides.
func SessionKey(h Headers, f *Facts, o *KeyOptions) Key {
	if k := namedSessionKey(h); k.Valid() {
		return k
	}
	json := f != nil && f.kind == bodyJSON
	if json {
		if t, ok := f.text(fieldSessionID); ok {
			return sessionID(f.unescaped(t), SourceSessionBody)
		}
	}
	for _, name := range o.SessionHeaders {
		if v := bytes.TrimSpace(h.Value(name)); clientSession(v) {
			return sessionID(v, SourceSessionClientHeader)
		}
	}
	if !json {
		return Key{}
	}
	if t, ok := f.text(fieldPromptCacheKey); ok {
		if v := f.unescaped(t); clientSession(v) {
			return sessionID(v, SourceSessionCacheKey)
		}
	}
	return f.openingKey()
}

// SessionKeyNeedsBody reports whether the body can change what SessionKey
// returns for these headers.
func SessionKeyNeedsBody(h Headers, _ *KeyOptions) bool {
	return !namedSessionKey(h).Valid()
}

// namedSessionKey returns the key of the two headers that come before the body.
func namedSessionKey(h Headers) Key {
	if v := bytes.TrimSpace(h.Value("X-Session-Id")); len(v) > 0 {
		return sessionID(v, SourceSessionHeader)
	}
	if v := bytes.TrimSpace(h.Value("X-Conversation-Id")); len(v) > 0 {
		return sessionID(v, SourceConversationHeader)
	}
	return Key{}
}

func sessionID(id []byte, source KeySource) Key {
	return Key{Hash: xxh3.HashSeed(id, tagSession), Source: source}
}

// clientSession reports whether v names a session: clients also send what
// their language prints for nothing.
func clientSession(v []byte) bool {
	return len(v) > 0 && len(v) <= maxClientSessionLength &&
		string(v) != "null" && string(v) != "undefined"
}

// unescaped returns t's text, in the body or in f.keyText.
func (f *Facts) unescaped(t rawText) []byte {
	if t.plain(f.scan.surrogates) {
		return t
	}
	f.keyText = t.appendText(f.keyText[:0], f.scan.surrogates)
	return f.keyText
}

// openingKey returns the key of the conversation's opening: the instructions,
// then every message up to and including the first one of the user, at most
// maxOpening; or else the prompt. It is the same on every turn of a
// conversation. A chain kept in the engine (previous_response_id) does not show
// its opening and has no key.
func (f *Facts) openingKey() Key {
	if _, chained := f.text(fieldPreviousResponseID); chained {
		return Key{}
	}
	f.hash.reset()
	f.writeInstructions()
	if !f.writeOpening() {
		return Key{}
	}
	return Key{Hash: f.hash.sum(), Source: SourceSessionMessages}
}

// writeInstructions hashes what stands beside the messages but opens the
// conversation.
func (f *Facts) writeInstructions() {
	if f.writeContent(f.fields[fieldSystem]) {
		f.hash.end(tagSystem)
	}
	if f.writeContent(f.fields[fieldInstructions]) {
		f.hash.end(tagInstructed)
	}
}

// writeOpening hashes the opening's messages and returns whether there are any.
func (f *Facts) writeOpening() bool {
	input := f.fields[fieldInput]
	switch {
	case f.kindOf(f.fields[fieldMessages]) == '[':
		return f.writeMessages(&f.messages)
	case f.kindOf(input) == '[':
		return f.writeMessages(&f.input)
	case f.kindOf(input) == '"':
		// The same as one message of the user, as which clients that keep the
		// history themselves repeat it on the next turn.
		f.hash.writeString(roleNames[roleUser])
		f.hash.end(tagRole)
		ok := f.writeContent(input)
		f.hash.end(tagText)
		return ok
	}
	t, tag := f.prompt()
	switch tag {
	case tagText:
		f.hash.writeText(t, f.scan.surrogates)
	case tagRaw:
		f.hash.write(t)
	default:
		return false
	}
	f.hash.end(tag)
	return true
}

func (f *Facts) writeMessages(c *conversation) bool {
	for i := range c.openingLen {
		m := &c.opening[i]
		if r := f.roleOf(m.role); r != roleOther {
			f.hash.writeString(roleNames[r])
		} else if f.kindOf(m.role) == '"' {
			f.hash.writeText(f.inside(m.role), f.scan.surrogates)
		}
		f.hash.end(tagRole)
		if f.writeContent(m.content) {
			f.hash.end(tagText)
			continue
		}
		f.hash.write(f.body[m.whole.start:m.whole.end])
		f.hash.end(tagRaw)
	}
	return c.openingLen > 0
}

// prompt returns the prompt of a completions request and how to read it: as
// text (tagText), as raw JSON (tagRaw), or not at all (0). Of an array it is
// the first element, but the whole array where that is a number: then the array
// is one prompt, as tokens.
func (f *Facts) prompt() (t rawText, tag byte) {
	v := f.fields[fieldPrompt]
	switch f.kindOf(v) {
	case '"':
		t, _ = f.text(fieldPrompt)
	case '[':
		first, more := f.scan.first(v.start)
		if !more {
			return nil, 0
		}
		switch c := f.body[first]; c {
		case '"':
			t = f.inside(jsonSpan{first, f.scan.value(first, 0)})
		case 'n':
			return nil, 0
		case '[', 't', 'f':
			return rawText(f.body[first:f.scan.value(first, 0)]), tagRaw
		case '{':
			var end int
			if t, end = f.part(first); len(t) == 0 {
				return rawText(f.body[first:end]), tagRaw
			}
		default:
			return rawText(f.body[v.start:v.end]), tagRaw
		}
	}
	if len(t) == 0 {
		return nil, 0
	}
	return t, tagText
}
