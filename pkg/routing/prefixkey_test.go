package routing

import (
	"fmt"
	"strings"
	"testing"
)

func TestPrefixKeySource(t *testing.T) {
	f := func(h fieldLines, body string, want KeySource, wantMalformed Malformed) {
		t.Helper()
		o := DefaultKeyOptions()
		var facts Facts
		var malformed Malformed
		facts.ParseJSON([]byte(body), &o)
		k := PrefixKey(h, &facts, &o, "prod/llama-3", &malformed)
		if k.Source != want || malformed != wantMalformed {
			t.Errorf("source of %.60q, %.100q is %s, %+v, want %s, %+v", h, body, k.Source, malformed, want, wantMalformed)
		}
	}
	var fine, header, body = Malformed{}, Malformed{Header: true}, Malformed{Body: true}
	const system = `"messages":[{"role":"system","content":"S"},{"role":"user","content":"Hi"}]`
	key := fieldLines{"X-Flexinfer-Cache-Key", "tenant-a/doc-42"}
	bad := fieldLines{"X-Flexinfer-Cache-Key", "bad key"}

	// The order of the table.
	f(key, `{"cache_key":"k","prefix":"p",`+system+`}`, SourceExplicitHeader, fine)
	f(nil, `{"cache_key":"k","prefix":"p",`+system+`}`, SourceExplicitBody, fine)
	f(nil, `{"cacheKey":"k","prefix":"p",`+system+`}`, SourceExplicitBody, fine)
	f(nil, `{"prompt_cache_key":"k","prefix":"p",`+system+`}`, SourceExplicitBody, fine)
	f(nil, `{"prefix":"p",`+system+`}`, SourcePrefixField, fine)
	f(nil, `{`+system+`}`, SourceCanonical, fine)
	f(nil, `{"messages":[{"role":"user","content":"Hi"}]}`, SourceSessionFallback, fine)
	f(fieldLines{"X-Session-Id", "s"}, `{}`, SourceSessionFallback, fine)
	f(fieldLines{"X-Session-Id", "s"}, ``, SourceSessionFallback, fine)
	f(nil, `{"model":"m"}`, SourceNone, fine) // model identity alone
	f(nil, `{"model":"m","system":" ","documents":[]}`, SourceNone, fine)
	f(nil, ``, SourceNone, fine)
	f(key, ``, SourceExplicitHeader, fine)

	// Malformed keys are skipped and counted.
	f(bad, `{"cache_key":"k"}`, SourceExplicitBody, header)
	f(bad, `{"cache_key":"a b","cacheKey":"k"}`, SourceExplicitBody, Malformed{true, true})
	f(bad, `{`+system+`}`, SourceCanonical, header)
	f(bad, ``, SourceNone, header)
	f(nil, `{"cache_key":"a b","cacheKey":"ü","prompt_cache_key":"x\u0000"}`, SourceSessionFallback, body)
	f(nil, `{"cache_key":"a b",`+system+`}`, SourceCanonical, body)
	f(fieldLines{"X-Flexinfer-Cache-Key", " "}, `{"cache_key":"","cacheKey":" \t"}`, SourceNone, fine)
	f(nil, `{"cache_key":7,"cacheKey":["k"],`+system+`}`, SourceCanonical, fine)
	// 1 to 128 bytes of the allowed characters, white space around trimmed.
	for c := range 256 {
		want, malformed := SourceExplicitHeader, fine
		if strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/=-", byte(c)) < 0 {
			want, malformed = SourceNone, header
		}
		f(fieldLines{"X-Flexinfer-Cache-Key", "x" + string([]byte{byte(c)}) + "x"}, ``, want, malformed)
	}
	f(fieldLines{"X-Flexinfer-Cache-Key", "\t" + strings.Repeat("k", 128) + " "}, ``, SourceExplicitHeader, fine)
	f(fieldLines{"X-Flexinfer-Cache-Key", strings.Repeat("k", 129)}, ``, SourceNone, header)
	f(nil, `{"cache_key":"\n`+strings.Repeat(`\u006b`, 128)+` "}`, SourceExplicitBody, fine)
	f(nil, `{"cache_key":"`+strings.Repeat(`\u006b`, 129)+`"}`, SourceNone, body)
	f(nil, `{"cache_key":"`+strings.Repeat("k", 5000)+`"}`, SourceNone, body)

	// prefix is normalised text.
	f(nil, `{"prefix":" \u00a0"}`, SourceNone, fine)
	f(nil, `{"prefix":["p"]}`, SourceNone, fine)
	// Each system and document source makes a key.
	for _, b := range []string{
		`"messages":[{"role":"developer","content":"S"}]`, `"messages":[{"role":"System","content":"S"}]`,
		`"messages":[{"role":"user","content":"Hi"},{"role":"system","content":[{"type":"text","text":"S"}]}]`,
		`"input":[{"role":"developer","content":[{"type":"input_text","text":"S"}]}]`,
		`"instructions":"S","input":"Hi"`, `"system":"S"`, `"system":[{"type":"text","text":"S"}]`,
		`"prompt":"P"`, `"prompt":["P"]`, `"prompt":[[1,2]]`,
		`"document_context":"D"`, `"documentContext":"D"`, `"context":"D"`, `"documents":["D"]`,
		`"documents":[{"text":"D"}]`, `"documents":[{"content":"D"}]`, `"documents":[{"value":"D"}]`,
	} {
		f(nil, `{`+b+`}`, SourceCanonical, fine)
	}
	for _, b := range []string{
		`"messages":[{"role":"system","content":null}]`, `"messages":[{"role":"system"}]`,
		`"messages":[{"role":"system","content":[{"type":"image_url"}]}]`,
		`"prompt":"P","messages":[{"role":"user","content":"Hi"}]`, `"prompt":"P","input":"Hi"`,
		`"input":"Hi"`, `"context":[1,2],"prompt":7,"input":"Hi"`, `"documents":{"text":"D"},"input":"Hi"`,
		`"documents":[null,"D"],"input":"Hi"`,
	} {
		f(nil, `{`+b+`}`, SourceSessionFallback, fine)
	}
}

func TestPrefixKeyValue(t *testing.T) {
	key := func(h fieldLines, body, identity string) Key {
		o := DefaultKeyOptions()
		var f Facts
		var m Malformed
		f.ParseJSON([]byte(body), &o)
		return PrefixKey(h, &f, &o, identity, &m)
	}
	compare := func(a, b Key, same bool, what ...any) {
		t.Helper()
		if !a.Valid() || !b.Valid() || (a.Hash == b.Hash) != same {
			t.Errorf("%v, %v, want one key: %v\n%s", a, b, same, fmt.Sprint(what...))
		}
	}
	alike := func(body1, body2 string) {
		t.Helper()
		compare(key(nil, body1, "ns/m"), key(nil, body2, "ns/m"), true, body1, "\n", body2)
	}
	differ := func(body1, body2 string) {
		t.Helper()
		compare(key(nil, body1, "ns/m"), key(nil, body2, "ns/m"), false, body1, "\n", body2)
	}
	system := func(s string) string {
		return `{"messages":[{"role":"system","content":"` + s + `"},{"role":"user","content":"Hi"}]}`
	}

	// The same system prompt, other questions: one key.
	alike(`{"messages":[{"role":"system","content":"You are an expert Python developer..."},{"role":"user","content":"How do I use decorators?"}]}`,
		`{"messages":[{"role":"system","content":"You are an expert Python developer..."},{"role":"user","content":"Explain async/await"}]}`)
	// The header and the body give one key, the case of which is kept.
	compare(key(fieldLines{"X-Flexinfer-Cache-Key", " tenant-a/doc-42 "}, `{"messages":[{"role":"user","content":"Summarize this document"}]}`, "ns/m"),
		key(nil, `{"cache_key":"tenant-a\/doc-42\n","messages":[{"role":"user","content":"x"}]}`, "ns/n"), true)
	alike(`{"cache_key":"k"}`, `{"cacheKey":"k"}`)
	alike(`{"cache_key":"k"}`, `{"cache_key":"a b","prompt_cache_key":"k"}`)
	alike(`{"cache_key":"k"}`, `{"cache_key":"j","cache_key":"k"}`)
	differ(`{"cache_key":"k"}`, `{"cache_key":"K"}`)
	differ(`{"cache_key":"k"}`, `{"prefix":"k"}`)
	// prefix: normalised, cut at the system limit.
	alike(`{"prefix":" A\n B"}`, `{"prefix":"a b"}`)
	alike(`{"prefix":"`+strings.Repeat("a", 512)+`x"}`, `{"prefix":"`+strings.Repeat("A", 512)+`y"}`)
	differ(`{"prefix":"`+strings.Repeat("a", 511)+`x"}`, `{"prefix":"`+strings.Repeat("a", 511)+`y"}`)

	// System segments.
	alike(system("You are"), system(` YOU \n\t are\u3000`))
	alike(system("a b"), `{"messages":[{"role":"developer","content":[{"text":"A"},{"type":"image_url"},{"content":" b "}]}]}`)
	alike(system(strings.Repeat("a", 512)+"x"), system(strings.Repeat("a", 512)+"y"))
	differ(system(strings.Repeat("a", 511)+"x"), system(strings.Repeat("a", 511)+"y"))
	differ(system("a"), system("b"))
	differ(system("a"), `{"messages":[{"role":"system","content":"a"},{"role":"system","content":"b"}]}`)
	differ(`{"messages":[{"role":"system","content":"a"},{"role":"system","content":"b"}]}`, `{"messages":[{"role":"system","content":"b"},{"role":"system","content":"a"}]}`)
	differ(`{"messages":[{"role":"system","content":"ab"},{"role":"system","content":"c"}]}`, `{"messages":[{"role":"system","content":"a"},{"role":"system","content":"bc"}]}`)
	alike(`{"system":"a","messages":[{"role":"user","content":"x"}]}`, `{"messages":[{"role":"user","content":"y"}],"system":[{"type":"text","text":"A"}]}`)
	alike(`{"instructions":"a","input":"x"}`, `{"instructions":"a","input":[{"role":"user","content":"y"}]}`)
	alike(`{"prompt":"a"}`, `{"prompt":["A","B"]}`)
	alike(`{"prompt":"`+strings.Repeat("a", 512)+`x"}`, `{"prompt":"`+strings.Repeat("a", 512)+`y"}`)
	differ(`{"prompt":[1,2]}`, `{"prompt":[1,3]}`)
	// Each segment is cut on its own, far behind the recorded ones too.
	many := func(last string) string {
		return `{"messages":[` + strings.Repeat(`{"role":"system","content":"`+strings.Repeat("a", 600)+`"},`, 40) + `{"role":"system","content":"` + last + `"}]}`
	}
	differ(many("x"), many("y"))
	alike(many("x"), many(" X "))
	alike(many(strings.Repeat("a", 512)+"x"), many(strings.Repeat("a", 512)+"y"))
	differ(many("a"), many(""))

	// Document segments.
	alike(`{"document_context":"D","context":"x"}`, `{"document_context":" ","documentContext":"d"}`)
	alike(`{"context":"D","documents":["x"]}`, `{"document_context":7,"documents":[{"text":" d"},{"text":"x"}]}`)
	alike(`{"context":"`+strings.Repeat("a", 256)+`x"}`, `{"context":"`+strings.Repeat("a", 256)+`y"}`)
	differ(`{"context":"`+strings.Repeat("a", 255)+`x"}`, `{"context":"`+strings.Repeat("a", 255)+`y"}`)
	differ(`{"context":"a"}`, `{"system":"a"}`)
	differ(`{"context":"a","system":"b"}`, `{"context":"b","system":"a"}`)

	// The model's identity; without it the body's model.
	b := system("a")
	compare(key(nil, b, "ns/m"), key(nil, b, "ns/n"), false)
	compare(key(nil, `{"model":"x","system":"a"}`, "ns/m"), key(nil, `{"model":"y","system":"a"}`, "ns/m"), true)
	compare(key(nil, `{"model":"x","system":"a"}`, ""), key(nil, `{"model":"y","system":"a"}`, ""), false)
	compare(key(nil, `{"model":"\u0078","system":"a"}`, ""), key(nil, `{"system":"a"}`, "x"), true)
	compare(key(nil, `{"model":7,"system":"a"}`, ""), key(nil, `{"system":"a"}`, ""), true)

	// The fallback is the session's own key.
	h := fieldLines{"X-Session-Id", "s"}
	if a, s := key(h, `{}`, "ns/m"), SessionKey(h, nil, &KeyOptions{}); a.Hash != s.Hash {
		t.Errorf("session-fallback %v, session key %v", a, s)
	}
}

// TestPrefixKeyLimits reads the operator's limits.
func TestPrefixKeyLimits(t *testing.T) {
	o := KeyOptions{ExplicitKeyMaxLength: 3, SystemSegmentMaxLength: 2, DocumentSegmentMaxLength: 1}.WithDefaults()
	f := func(body1, body2 string, same bool) {
		t.Helper()
		var f Facts
		var m Malformed
		f.ParseJSON([]byte(body1), &o)
		a := PrefixKey(fieldLines{}, &f, &o, "", &m)
		f.ParseJSON([]byte(body2), &o)
		if b := PrefixKey(fieldLines{}, &f, &o, "", &m); (a == b) != same {
			t.Errorf("%s: %v, %s: %v", body1, a, body2, b)
		}
	}
	f(`{"cache_key":"abc"}`, `{"cache_key":"abcd","cacheKey":"abc"}`, true)
	f(`{"system":"abc"}`, `{"system":"abd"}`, true)
	f(`{"system":"ac"}`, `{"system":"ad"}`, false)
	f(`{"context":"ab"}`, `{"context":"ac"}`, true)
	if got := (KeyOptions{ExplicitKeyMaxLength: -1}).WithDefaults(); got.ExplicitKeyMaxLength != 128 || got.SystemSegmentMaxLength != 512 || got.DocumentSegmentMaxLength != 256 {
		t.Errorf("WithDefaults: %+v", got)
	}
}

func TestPrefixKeyNeedsBody(t *testing.T) {
	o := DefaultKeyOptions()
	f := func(want bool, h ...string) {
		t.Helper()
		if got := PrefixKeyNeedsBody(fieldLines(h), &o); got != want {
			t.Errorf("PrefixKeyNeedsBody(%q) = %v, want %v", h, got, want)
		}
	}
	f(false, "X-Flexinfer-Cache-Key", " tenant-a/doc-42 ")
	f(true, "X-Flexinfer-Cache-Key", "bad key")
	f(true, "X-Session-Id", "s")
	f(true)
}

// TestPrefixKeyWithoutBody takes nil for no body.
func TestPrefixKeyWithoutBody(t *testing.T) {
	o := DefaultKeyOptions()
	var m Malformed
	if k := PrefixKey(fieldLines{"X-Flexinfer-Cache-Key", "k"}, nil, &o, "ns/m", &m); k.Source != SourceExplicitHeader {
		t.Errorf("source %s", k.Source)
	}
	if k := PrefixKey(fieldLines{}, nil, &o, "ns/m", &m); k.Valid() {
		t.Errorf("key %v out of nothing", k)
	}
}
