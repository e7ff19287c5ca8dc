package routing

import (
	"fmt"
	"strings"
	"testing"
)

func TestSessionKeySource(t *testing.T) {
	f := func(h fieldLines, body string, want KeySource) {
		t.Helper()
		if got, _ := keysOf(t, h, body); got.Source != want || got.Valid() != (want != SourceNone) {
			t.Errorf("source of %.60q, %.100q is %s, want %s", h, body, got.Source, want)
		}
	}
	const (
		all  = `{"session_id":"b","prompt_cache_key":"c","messages":[{"role":"user","content":"Hello"}]}`
		rest = `{"prompt_cache_key":"c","messages":[{"role":"user","content":"Hello"}]}`
		chat = `{"messages":[{"role":"user","content":"Hello"}]}`
	)
	every := fieldLines{"X-Session-Id", "s", "X-Conversation-Id", "c", "Thread-Id", "t"}

	// The order of the table.
	f(every, all, SourceSessionHeader)
	f(every[2:], all, SourceConversationHeader)
	f(every[4:], all, SourceSessionBody)
	f(every[4:], rest, SourceSessionClientHeader)
	f(nil, rest, SourceSessionCacheKey)
	f(nil, chat, SourceSessionMessages)
	f(nil, `{}`, SourceNone)
	f(nil, ``, SourceNone)
	f(every, ``, SourceSessionHeader)
	f(every[4:], ``, SourceSessionClientHeader)
	f(every[4:], `{"session_id":"s"`, SourceSessionClientHeader) // invalid JSON is no body key

	// Rows 1 and 2: trimmed, not empty.
	f(fieldLines{"X-Session-Id", " \t", "X-Conversation-Id", "c"}, all, SourceConversationHeader)
	f(fieldLines{"X-Session-Id", "", "X-Conversation-Id", " "}, all, SourceSessionBody)
	f(fieldLines{"X-Session-Id", strings.Repeat("s", 5000)}, all, SourceSessionHeader)
	// Row 3: a non-empty string.
	f(nil, `{"session_id":"","messages":[{"role":"user","content":"Hello"}]}`, SourceSessionMessages)
	f(nil, `{"session_id":7,"messages":[{"role":"user","content":"Hello"}]}`, SourceSessionMessages)
	f(nil, `{"session_id":null,"messages":[{"role":"user","content":"Hello"}]}`, SourceSessionMessages)
	f(nil, `{"session_id":{"id":"s"},"messages":[{"role":"user","content":"Hello"}]}`, SourceSessionMessages)
	f(nil, `{"session_id":"s","session_id":null}`, SourceNone)
	f(nil, `{"x":{"session_id":"s"}}`, SourceNone)
	// Row 4: every default header, values that name nothing passed over.
	for _, name := range []string{"X-Claude-Code-Session-Id", "Session-Id", "Session_id", "Thread-Id", "X-Session-Affinity", "X-Opencode-Session"} {
		f(fieldLines{name, " v "}, chat, SourceSessionClientHeader)
		for _, v := range []string{"", " ", "null", " undefined ", strings.Repeat("v", 1025)} {
			f(fieldLines{name, v}, chat, SourceSessionMessages)
		}
		f(fieldLines{name, strings.Repeat("v", 1024)}, chat, SourceSessionClientHeader)
	}
	for _, name := range []string{"X-Client-Request-Id", "X-Request-Id", "Traceparent", "X-Flexinfer-Cache-Key"} {
		f(fieldLines{name, "v"}, chat, SourceSessionMessages)
	}
	// Row 5, likewise.
	for _, v := range []string{"", "null", "undefined", strings.Repeat("v", 1025), strings.Repeat(`\u0076`, 1025)} {
		f(nil, `{"prompt_cache_key":"`+v+`"}`, SourceNone)
	}
	f(nil, `{"prompt_cache_key":"`+strings.Repeat(`\u0076`, 1024)+`"}`, SourceSessionCacheKey)
	f(nil, `{"prompt_cache_key":5}`, SourceNone)
	// Row 6.
	f(nil, `{"messages":[]}`, SourceNone)
	f(nil, `{"messages":{}}`, SourceNone)
	f(nil, `{"messages":"Hello"}`, SourceNone)
	f(nil, `{"messages":[null,1,"Hello",["x"]]}`, SourceNone) // no messages
	f(nil, `{"messages":[{}]}`, SourceSessionMessages)
	f(nil, `{"messages":[{"role":"user","content":null}]}`, SourceSessionMessages)
	f(nil, `{"system":"S"}`, SourceNone)
	f(nil, `{"instructions":"I"}`, SourceNone)
	f(nil, `{"input":"Hello"}`, SourceSessionMessages)
	f(nil, `{"input":""}`, SourceNone)
	f(nil, `{"input":7}`, SourceNone)
	f(nil, `{"input":[{"role":"user","content":"Hello"}]}`, SourceSessionMessages)
	f(nil, `{"prompt":"Once"}`, SourceSessionMessages)
	f(nil, `{"prompt":""}`, SourceNone)
	f(nil, `{"prompt":["Once","Twice"]}`, SourceSessionMessages)
	f(nil, `{"prompt":[]}`, SourceNone)
	f(nil, `{"prompt":[null]}`, SourceNone)
	f(nil, `{"prompt":[""]}`, SourceNone)
	f(nil, `{"prompt":{"id":"pmpt_1"}}`, SourceNone)
	f(nil, `{"prompt":[1,2,3]}`, SourceSessionMessages)
	// Chains kept in the engine have rows 1 to 5 only.
	f(nil, `{"previous_response_id":"r","input":"Hello"}`, SourceNone)
	escaped := ""
	for _, c := range "previous_response_id" { // the longest name, spelled as long as can be
		escaped += fmt.Sprintf(`\u%04x`, c)
	}
	f(nil, `{"`+escaped+`":"r","input":"Hello"}`, SourceNone)
	f(nil, `{"previous_response_id":null,"input":"Hello"}`, SourceSessionMessages)
	f(nil, `{"previous_response_id":"","input":"Hello"}`, SourceSessionMessages)
	f(nil, `{"previous_response_id":"r","input":"Hello","session_id":"s"}`, SourceSessionBody)
	f(nil, `{"previous_response_id":"r","input":"Hello","prompt_cache_key":"s"}`, SourceSessionCacheKey)
	f(fieldLines{"Thread-Id", "t"}, `{"previous_response_id":"r","input":"Hello"}`, SourceSessionClientHeader)
}

func TestSessionKeyValue(t *testing.T) {
	same := func(h1 fieldLines, body1 string, h2 fieldLines, body2 string) {
		t.Helper()
		a, _ := keysOf(t, h1, body1)
		b, _ := keysOf(t, h2, body2)
		if !a.Valid() || a.Hash != b.Hash {
			t.Errorf("%q %s: %v\n%q %s: %v\nwant one key", h1, body1, a, h2, body2, b)
		}
	}
	differ := func(body1, body2 string) {
		t.Helper()
		a, _ := keysOf(t, nil, body1)
		b, _ := keysOf(t, nil, body2)
		if !a.Valid() || !b.Valid() || a.Hash == b.Hash {
			t.Errorf("%s: %v\n%s: %v\nwant two keys", body1, a, body2, b)
		}
	}
	alike := func(body1, body2 string) { t.Helper(); same(nil, body1, nil, body2) }

	// One identifier is one session, wherever it stands.
	same(fieldLines{"X-Session-Id", "s-1"}, ``, fieldLines{"X-Session-Id", " s-1\t"}, `{"session_id":"x"}`)
	same(fieldLines{"X-Session-Id", "s-1"}, ``, fieldLines{"X-Conversation-Id", "s-1"}, ``)
	same(fieldLines{"X-Session-Id", "s-1"}, ``, nil, `{"session_id":"s\u002d1"}`)
	same(fieldLines{"Thread-Id", "s-1"}, ``, nil, `{"prompt_cache_key":"s-1"}`)

	// Messages behind the opening do not count, nor does spelling or order.
	alike(`{"messages":[{"role":"user","content":"Hi"}]}`, `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes?"},{"role":"user","content":"Go"}]}`)
	alike(`{"messages":[{"role":"user","content":"Hi"}]}`, `{"x":1, "messages" : [ {"content":"\u0048i","name":"n","role":"\u0075ser"} ] }`)
	alike(`{"messages":[{"role":"user","content":"Hi"}]}`, `{"messages":[{"role":"USER","content":[{"type":"text","text":" Hi "}]}]}`)
	alike(`{"messages":[{"role":"user","content":"a b"}]}`, `{"messages":[{"role":"user","content":[{"text":"a"},{"type":"image_url","image_url":{}},{"content":"b"}]}]}`)
	alike(`{"messages":[{"role":"user","content":"a b"}]}`, `{"messages":[{"role":"user","content":["a",{"value":"b"},null,3,{"text":7}]}]}`)
	alike(`{"messages":[{"role":"user","content":"b"}]}`, `{"messages":[{"role":"user","content":"a","content":"b"}]}`)
	alike(`{"messages":[{"role":"user","content":"b"}]}`, `{"messages":[{"role":"user","content":[{"text":"a","text":"b"}]}]}`)
	alike(`{"messages":[{"role":"user","content":"c"}]}`, `{"messages":[{"role":"user","content":[{"text":" ","content":"c","value":"v"}]}]}`)
	alike(`{"messages":[{"role":"user","content":"c"}]}`, `{"messages":[{"role":"user","content":[{"text":{"value":"t"},"content":["x"],"value":"c"}]}]}`)
	alike(`{"messages":[{"role":"user","content":"b"}]}`, `{"messages":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"b"}]}`)
	alike(`{"messages":[{"role":"user","content":"b"}],"input":"x","prompt":"y"}`, `{"prompt":"z","messages":[{"role":"user","content":"b"}]}`)
	alike(`{"messages":[{"role":"user","content":"\ud800"}]}`, "{\"messages\":[{\"role\":\"user\",\"content\":\"\xED\xA0\x80\"}]}")

	differ(`{"messages":[{"role":"user","content":"Hi"}]}`, `{"messages":[{"role":"user","content":"Ho"}]}`)
	differ(`{"messages":[{"role":"user","content":"Hi"}]}`, `{"messages":[{"role":"user","content":"hi"}]}`)
	differ(`{"messages":[{"role":"user","content":"Hi"}]}`, `{"messages":[{"role":"assistant","content":"Hi"}]}`)
	differ(`{"messages":[{"role":"user","content":"Hi"}]}`, `{"messages":[{"role":"system","content":"S"},{"role":"user","content":"Hi"}]}`)
	differ(`{"messages":[{"role":"a","content":"b"}]}`, `{"messages":[{"role":"ab","content":""}]}`)
	differ(`{"messages":[{"role":"system","content":"ab"},{"role":"user","content":"c"}]}`, `{"messages":[{"role":"system","content":"a"},{"role":"user","content":"bc"}]}`)

	// Without a user's message the first five count.
	six := func(fifth, sixth string) string {
		return `{"messages":[` + strings.Repeat(`{"role":"assistant","content":"a"},`, 4) +
			`{"role":"assistant","content":"` + fifth + `"},{"role":"assistant","content":"` + sixth + `"}]}`
	}
	alike(six("a", "x"), six("a", "y"))
	differ(six("a", "x"), six("b", "x"))

	// A message without text counts by its raw JSON.
	image := func(data string) string {
		return `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:` + data + `"}}]}]}`
	}
	alike(image("x"), image("x"))
	differ(image("x"), image("y"))
	differ(`{"messages":[{"role":"user","content":null}]}`, `{"messages":[{"role":"user","content":null,"name":"n"}]}`)

	// Responses.
	alike(`{"instructions":"I","input":"Hi"}`, `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]},{"type":"reasoning","summary":[]}],"instructions":"I"}`)
	differ(`{"instructions":"I","input":"Hi"}`, `{"instructions":"J","input":"Hi"}`)
	differ(`{"instructions":"I","input":"Hi"}`, `{"input":"Hi"}`)
	differ(`{"input":"Hi"}`, `{"input":"Ho"}`)
	alike(`{"input":[{"role":"user","content":"a"}],"input":"b"}`, `{"input":"b"}`)
	alike(`{"input":"b","input":[{"role":"user","content":"a"}]}`, `{"input":"a"}`)
	// Anthropic.
	alike(`{"system":"S","messages":[{"role":"user","content":"Hi"}]}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}]}`)
	differ(`{"system":"S","messages":[{"role":"user","content":"Hi"}]}`, `{"system":"T","messages":[{"role":"user","content":"Hi"}]}`)
	differ(`{"system":"S","messages":[{"role":"user","content":"Hi"}]}`, `{"instructions":"S","messages":[{"role":"user","content":"Hi"}]}`)
	// Completions.
	alike(`{"prompt":"Once"}`, `{"prompt":["Once","Twice"]}`)
	alike(`{"prompt":"Once"}`, `{"prompt":[{"text":" Once "}]}`)
	differ(`{"prompt":"Once"}`, `{"prompt":"Twice"}`)
	alike(`{"prompt":[[1,2],[3]]}`, `{"prompt":[[1,2],[4]]}`)
	differ(`{"prompt":[[1,2]]}`, `{"prompt":[[1,3]]}`)
	differ(`{"prompt":[1,2]}`, `{"prompt":[1,3]}`) // one prompt, as tokens
	differ(`{"prompt":[[1,2]]}`, `{"prompt":"[1,2]"}`)
	differ(`{"prompt":"Once"}`, `{"input":"Once"}`)
}

// TestSessionKeyStays follows conversations of each API over 50 turns without
// any session identifier.
func TestSessionKeyStays(t *testing.T) {
	f := func(name, front, field, text string) {
		t.Helper()
		var first Key
		var turns []string
		for turn := range 50 {
			turns = append(turns, fmt.Sprintf(`{"role":"user","content":%s}`, fmt.Sprintf(text, turn)))
			body := front + `"` + field + `":[` + strings.Join(turns, ",") + `]}`
			k, _ := keysOf(t, nil, body)
			if turn == 0 {
				first = k
			}
			if k != first || k.Source != SourceSessionMessages {
				t.Fatalf("%s: turn %d has key %v, turn 1 %v", name, turn+1, k, first)
			}
			turns = append(turns, fmt.Sprintf(`{"role":"assistant","content":"Answer %d"}`, turn))
		}
	}
	f("chat", `{"model":"m",`, "messages", `"Question %d"`)
	f("chat with parts", `{"model":"m",`, "messages", `[{"type":"text","text":"Question %d"},{"type":"image_url","image_url":{"url":"x"}}]`)
	f("responses", `{"instructions":"Be brief",`, "input", `[{"type":"input_text","text":"Question %d"}]`)
	f("anthropic", `{"system":[{"type":"text","text":"Be brief"}],`, "messages", `"Question %d"`)
}

// TestSessionKeyWithoutBody takes nil for no body.
func TestSessionKeyWithoutBody(t *testing.T) {
	o := DefaultKeyOptions()
	if k := SessionKey(fieldLines{"Thread-Id", "t"}, nil, &o); k.Source != SourceSessionClientHeader {
		t.Errorf("source %s", k.Source)
	}
	if k := SessionKey(fieldLines{}, nil, &o); k.Valid() {
		t.Errorf("key %v out of nothing", k)
	}
}

func TestSessionKeyNeedsBody(t *testing.T) {
	o := DefaultKeyOptions()
	f := func(want bool, h ...string) {
		t.Helper()
		if got := SessionKeyNeedsBody(fieldLines(h), &o); got != want {
			t.Errorf("SessionKeyNeedsBody(%q) = %v, want %v", h, got, want)
		}
	}
	f(false, "X-Session-Id", "s")
	f(false, "X-Conversation-Id", "s")
	f(true, "X-Session-Id", " ")
	f(true, "Thread-Id", "t") // session_id comes before it
	f(true)
}

func TestParseSessionHeaders(t *testing.T) {
	f := func(list string, want ...string) {
		t.Helper()
		if got := ParseSessionHeaders(list); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("ParseSessionHeaders(%q) = %q, want %q", list, got, want)
		}
	}
	f("")
	f(" , ")
	f("x-a, SESSION_ID ,X-A,,b", "X-A", "Session_id", "B")
	off := DefaultKeyOptions()
	off.SessionHeaders = ParseSessionHeaders("")
	if k := SessionKey(fieldLines{"Thread-Id", "t"}, nil, &off); k.Valid() {
		t.Errorf("an empty list leaves key %v", k)
	}
	other := KeyOptions{SessionHeaders: ParseSessionHeaders("X-B,X-A")}.WithDefaults()
	if k, want := SessionKey(fieldLines{"X-A", "a", "X-B", "b"}, nil, &other), sessionID([]byte("b"), SourceSessionClientHeader); k != want {
		t.Errorf("key %v, want that of the first header of the setting", k)
	}
}
