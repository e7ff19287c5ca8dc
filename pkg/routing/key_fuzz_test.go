package routing

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// fuzzBodies are bodies that reach the corners of the parser.
var fuzzBodies = []string{
	``, `{}`, `[]`, "\uFEFF{\"model\":\"m\"}", `{"model":"a\u0062","m\u006fdel":"\ud83d\ude00\ud83d\x"}`,
	`{"messages":[{"role":"system","content":"You are an expert"},{"role":"user","content":[{"type":"text","text":" Hi "},{"type":"image_url"},"x"]}]}`,
	`{"instructions":"Be brief","input":[{"role":"developer","content":[{"type":"input_text","text":"A"}]},{"type":"reasoning"},{"role":"user","content":null}]}`,
	`{"system":[{"type":"text","text":"S","cache_control":{}}],"messages":[{"role":"user","content":"Hi"}],"previous_response_id":""}`,
	`{"prompt":["Once",2]}`, `{"prompt":[1,2,3]}`, `{"prompt":[[1,2],[3]]}`, `{"prompt":[{"x":1}],"context":" "}`,
	`{"session_id":"s","prompt_cache_key":"null","cache_key":" a b ","cacheKey":"t/d-1","prefix":"\u00a0X\u3000"}`,
	`{"documents":[{"text":"","content":"C"}],"document_context":"","documentContext":7,"context":"Σ"}`,
	`{"a":[NaN,-Infinity,Infinity,-0,1e+5,true,false,null,[[{}]]]}`,
	"{\"model\":\"\xED\xA0\x80\",\"x\":\"\xF4\x8F\xBF\xBF\"}", "{\"model\":\"\xFF\"}", `{"model":"m"} x`, `{"model":"m`,
}

// FuzzParseJSON compares all that is found in a body with the oracle. The
// header is used as a value of several fields.
func FuzzParseJSON(f *testing.F) {
	for _, body := range fuzzBodies {
		f.Add([]byte(body), "")
		f.Add([]byte(body), " tenant-a/doc-42 ")
	}
	m := &bodyMaker{Rand: rand.New(rand.NewPCG(1, 1))}
	for range 30 {
		f.Add(m.body(), "null")
	}
	options := []KeyOptions{DefaultKeyOptions(), {ExplicitKeyMaxLength: 8, SystemSegmentMaxLength: 7, DocumentSegmentMaxLength: 5}}
	var facts Facts
	f.Fuzz(func(t *testing.T, body []byte, header string) {
		compareWithOracle(t, &facts, nil, body, &options[0], "prod/llama-3")
		compareWithOracle(t, &facts, nil, body, &options[1], "")
		compareWithOracle(t, &facts, fieldLines{"Thread-Id", header, "X-Flexinfer-Cache-Key", header}, body, &options[0], "")
	})
}

// FuzzSplice checks that a splice changes the model and nothing else.
func FuzzSplice(f *testing.F) {
	for _, body := range fuzzBodies {
		f.Add([]byte(body), `org/M "7B"`)
	}
	o := DefaultKeyOptions()
	f.Fuzz(func(t *testing.T, body []byte, served string) {
		served = string(bytes.ToValidUTF8([]byte(served), nil))
		var facts, after Facts
		facts.ParseJSON(body, &o)
		spliced := AppendModelSplice(nil, body, &facts, served)
		start, end, ok := facts.ModelSpan()
		if !ok {
			if !bytes.Equal(spliced, body) {
				t.Fatalf("%q became %q without a model", body, spliced)
			}
			return
		}
		grown := len(spliced) - len(body)
		if !bytes.Equal(spliced[:start], body[:start]) || !bytes.Equal(spliced[end+grown:], body[end:]) {
			t.Fatalf("%q became %q", body, spliced)
		}
		if !after.ParseJSON(spliced, &o) {
			t.Fatalf("%q became %q, which is invalid", body, spliced)
		}
		if name, _ := after.Model(); string(name) != served {
			t.Fatalf("%q became %q: model %q, want %q", body, spliced, name, served)
		}
		if back := AppendModelSplice(nil, spliced, &after, ""); !bytes.Equal(back, AppendModelSplice(nil, body, &facts, "")) {
			t.Fatalf("%q became %q, then %q", body, spliced, back)
		}
	})
}
