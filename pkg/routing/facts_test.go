package routing

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// nested returns a body with n open containers at its deepest.
func nested(n int, opener, closer string) string {
	return `{"a":` + strings.Repeat(opener, n-1) + "1" + strings.Repeat(closer, n-1) + `}`
}

func TestParseJSONTakesPart(t *testing.T) {
	o := DefaultKeyOptions()
	f := func(body string, want bool) {
		t.Helper()
		var facts Facts
		if got := facts.ParseJSON([]byte(body), &o); got != want || facts.JSON() != want {
			t.Errorf("ParseJSON(%.80q) = %v, JSON = %v, want %v", body, got, facts.JSON(), want)
		}
		if q := oracleParse([]byte(body)); (q != nil) != want {
			t.Errorf("oracle on %.80q: %v, want %v", body, q != nil, want)
		}
	}
	valid := func(body string) { t.Helper(); f(body, true) }
	invalid := func(body string) { t.Helper(); f(body, false) }

	valid(`{}`)
	valid(" \t\r\n{ } \n")
	valid("\uFEFF{}")
	valid("\uFEFF {\"a\":1}")
	valid(`{"a":[1,-0,0.5,1e5,1E+5,2.5e-3,true,false,null,"",{},[]]}`)
	valid(`{"a":NaN,"b":[Infinity,-Infinity]}`)
	valid(`{"a":"\x"}`) // an escape that does not exist
	valid(`{"a":"\u12"}`)
	valid(`{"a":"\ud800"}`)
	valid("{\"a\":\"\xED\xA0\x80\"}") // an encoded surrogate, as json.loads takes it
	valid("{\"a\":\"\x7F\u2028\U0010FFFF\"}")
	valid(nested(maxNesting, "[", "]"))
	valid(nested(maxNesting, `{"a":`, "}"))

	// Other kinds, no body.
	invalid("")
	invalid(" ")
	invalid("\uFEFF")
	invalid(`[]`)
	invalid(`"model"`)
	invalid(`null`)
	invalid(`1`)
	// Cut off, or more than one value.
	invalid(`{`)
	invalid(`{"a"`)
	invalid(`{"a":`)
	invalid(`{"a":1`)
	invalid(`{"a":"`)
	invalid(`{"a":"\`)
	invalid(`{"a":tru`)
	invalid(`{"a":1}}`)
	invalid(`{"a":1} x`)
	invalid("{}\uFEFF")
	invalid("\uFEFF\uFEFF{}")
	invalid("{}\x00")
	// Structure.
	invalid(`{,}`)
	invalid(`{"a":1,}`)
	invalid(`{"a":[1,]}`)
	invalid(`{"a":[,1]}`)
	invalid(`{"a" 1}`)
	invalid(`{"a":1 "b":2}`)
	invalid(`{a:1}`)
	invalid(`{'a':1}`)
	invalid(`{1:1}`)
	invalid(`{"a":[1}`)
	invalid(`{"a":{"b":1]}`)
	invalid(`{"a":[}]}`)
	invalid("{\"a\":\v1}")
	invalid("{\"a\":\u00a01}")
	// Numbers and literals.
	for _, s := range []string{"01", "-", "-01", "+1", ".5", "1.", "1.e5", "1e", "1e+", "0x1", "1_0", "True", "nulll", "nan", "-NaN", "+Infinity", "Inf", "--1"} {
		invalid(`{"a":` + s + `}`)
	}
	// Strings.
	invalid("{\"a\":\"\n\"}")
	invalid("{\"a\":\"\x00\"}")
	invalid("{\"a\":\"\x1f\"}")
	invalid("{\"a\":\"\\\n\"}")
	invalid("{\"a\":\"\xff\"}")
	invalid("{\"a\":\"\xc0\x80\"}")
	invalid("{\"a\":\"\xe0\x80\x80\"}")
	invalid("{\"a\":\"\xf4\x90\x80\x80\"}")
	invalid("{\"a\":\"\xe2\x82\"}")
	invalid("{\"\x80\":1}")
	// UTF-16 and UTF-32, with and without a mark.
	invalid("{\x00}\x00")
	invalid("\x00{\x00}")
	invalid("\xff\xfe{\x00}\x00")
	invalid("\xfe\xff\x00{\x00}")
	invalid("{\x00\x00\x00}\x00\x00\x00")
	// Nesting.
	invalid(nested(maxNesting+1, "[", "]"))
	invalid(nested(maxNesting+1, `{"a":`, "}"))
	invalid(strings.Repeat(`{"messages":[`, 1<<14))
	invalid(`{"messages":` + strings.Repeat("[", maxNesting) + strings.Repeat("]", maxNesting) + `}`)
	valid(`{"messages":` + strings.Repeat("[", maxNesting-1) + strings.Repeat("]", maxNesting-1) + `}`)
	valid(`{"input":[{"content":` + strings.Repeat("[", maxNesting-3) + strings.Repeat("]", maxNesting-3) + `}]}`)
	invalid(`{"input":[{"content":` + strings.Repeat("[", maxNesting-2) + strings.Repeat("]", maxNesting-2) + `}]}`)
}

// TestParseJSONCutOff cuts a body at every byte: no part of it is an object.
func TestParseJSONCutOff(t *testing.T) {
	o := DefaultKeyOptions()
	body := []byte(`{"model":"m\u00e9ü","messages":[{"role":"user","content":[{"text":"😀"}]},null],"n":[-1.5e3,true,NaN]}`)
	var f Facts
	if !f.ParseJSON(body, &o) {
		t.Fatal("the body is valid")
	}
	for i := range body {
		// A copy that ends there, so that reading on would panic.
		if f.ParseJSON(bytes.Clone(body[:i])[:i:i], &o) {
			t.Errorf("ParseJSON(%q) = true", body[:i])
		}
		if _, ok := f.Model(); ok {
			t.Errorf("ParseJSON(%q) left a model", body[:i])
		}
	}
}

// TestStringBytes puts every sequence of up to three bytes, and the borders of
// those of four, into a string, at places that differ in how many bytes are
// read at once.
func TestStringBytes(t *testing.T) {
	o := DefaultKeyOptions()
	var f Facts
	check := func(seq []byte) {
		if bytes.ContainsAny(seq, "\"\\") {
			return // ends or escapes; not this test's subject
		}
		for _, pad := range [...][2]string{{"", ""}, {"0123456", "0123456789abcdef01234567"}, {"01234567890123456789", ""}} {
			body := []byte(`{"":"` + pad[0] + string(seq) + pad[1] + `"}`)
			want := utf8.Valid(replaceSurrogates(seq)) && bytes.IndexFunc(seq, func(r rune) bool { return r < ' ' }) < 0
			if got := f.ParseJSON(body, &o); got != want {
				t.Fatalf("ParseJSON(%q) = %v, want %v", body, got, want)
			}
		}
	}
	borders := []byte{0x00, 0x1f, 0x20, 'a', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf3, 0xf4, 0xf5, 0xf7, 0xf8, 0xff}
	for a := range 256 {
		check([]byte{byte(a)})
		for b := range 256 {
			check([]byte{byte(a), byte(b)})
		}
	}
	for a := range 256 {
		for _, b := range borders {
			for _, c := range borders {
				check([]byte{byte(a), b, c})
				if a >= 0xE0 {
					for _, d := range borders {
						check([]byte{byte(a), b, c, d})
					}
				}
			}
		}
	}
}

// TestEscapesAnywhere puts backslashes in front of what may follow them at every
// place of the words that strings are read in, behind an escape and without one.
func TestEscapesAnywhere(t *testing.T) {
	o := DefaultKeyOptions()
	var f Facts
	for _, before := range []string{"", `\n`, `\\`} {
		for pad := range 40 {
			for backslashes := range 5 {
				for _, last := range []string{"", `"`, "n", "u0041", "\n", "\x1f", " ", "é", "\xff", "A  b"} {
					text := before + strings.Repeat("x", pad) + strings.Repeat(`\`, backslashes) + last
					for _, end := range []string{`"}`, strings.Repeat("Y", 40-pad) + `"}`, strings.Repeat(" Y", 40) + `","a":"` + strings.Repeat("z", 40) + `"}`} {
						compareWithOracle(t, &f, nil, []byte(`{"prefix":"`+text+end), &o, "")
					}
				}
			}
		}
	}
}

func TestModel(t *testing.T) {
	o := DefaultKeyOptions()
	f := func(body, want string, wantOK bool) {
		t.Helper()
		var facts Facts
		facts.ParseJSON([]byte(body), &o)
		name, ok := facts.Model()
		if string(name) != want || ok != wantOK {
			t.Errorf("Model of %.100q = %q, %v, want %q, %v", body, name, ok, want, wantOK)
		}
		start, end, ok := facts.ModelSpan()
		if ok != wantOK || ok && (body[start] != '"' || body[end-1] != '"') {
			t.Errorf("ModelSpan of %.100q = %d, %d, %v", body, start, end, ok)
		}
	}
	has := func(body, want string) { t.Helper(); f(body, want, true) }
	none := func(body string) { t.Helper(); f(body, "", false) }

	has(`{"model":"m"}`, "m")
	has(`{"model" : "m" }`, "m")
	has(`{"model":""}`, "")
	has(`{"model":"a\u0062"}`, "ab")
	has(`{"model":"\"\\\/\b\f\n\r\t"}`, "\"\\/\b\f\n\r\t")
	has(`{"model":"\ud83d\ude00"}`, "😀")
	has(`{"model":"\uD83D\uDE00"}`, "😀")
	has(`{"model":"\ud83d"}`, "\uFFFD")
	has(`{"model":"\ude00\ud83d"}`, "\uFFFD\uFFFD")
	has(`{"model":"\ude00\ude00"}`, "\uFFFD\uFFFD")
	has(`{"model":"\ud83dx"}`, "\uFFFDx")
	has(`{"model":"\ud83d\u0041"}`, "\uFFFDA")
	has(`{"model":"\ud83d\ud83d\ude00"}`, "\uFFFD😀")
	has(`{"model":"\ud83d\n"}`, "\uFFFD\n")
	has("{\"model\":\"\xED\xA0\x80x\"}", "\uFFFDx")
	has("{\"model\":\"\xED\xA0\xBD\xED\xB8\x80\"}", "\uFFFD\uFFFD")
	has(`{"model":"\x41"}`, "\uFFFD41")
	has(`{"model":"\u12G4"}`, "\uFFFD12G4")
	has(`{"model":"\u1"}`, "\uFFFD1")
	has(`{"model":"\éa"}`, "\uFFFDa")
	has(`{"model":"\😀a"}`, "\uFFFDa")
	has(`{"mod\u0065l":"m"}`, "m")
	has(`{"\u006d\u006f\u0064\u0065\u006c":"m"}`, "m")
	// The last one counts, also where it is no string.
	has(`{"model":"a","model":"b"}`, "b")
	has(`{"model":"a","mod\u0065l":"b"}`, "b")
	has(`{"model":1,"model":"b"}`, "b")
	none(`{"model":"a","model":1}`)
	none(`{"model":"a","model":null}`)
	none(`{"model":["m"]}`)
	none(`{"model":{"model":"m"}}`)
	none(`{"Model":"m"}`)
	none(`{"model\u0000":"m"}`)
	none(`{"x":{"model":"m"}}`)
	none(`{"messages":[{"model":"m"}]}`)
	none(`{"model":"m"`)
	none(`["model","m"]`)
	has(string(toolsBody(3<<20)), "llama-3")
	has(`{"`+strings.Repeat(`\u006d`, 1000)+`":1,"model":"m"}`, "m")
}

// TestFactsAreReused parses one body after another: nothing of one shows in the
// next, not even after a body that takes no part.
func TestFactsAreReused(t *testing.T) {
	o := DefaultKeyOptions()
	var h fieldLines
	var reused Facts
	full := `{"model":"m","messages":[{"role":"system","content":"a"},{"role":"user","content":"b"}],"input":[{"role":"user","content":"c"}],"session_id":"s","cache_key":"k","prefix":"p","documents":["d"]}`
	for _, body := range []string{full, `{}`, full, `{"messages":[]}`, full, `{"x":"` + "\xED\xA0\x80" + `"}`, `{"messages":[{"role":"user","content":"x"}]}`, full, `{"model":"m"`, full, ``} {
		var fresh Facts
		var a, b Malformed
		reused.ParseJSON([]byte(body), &o)
		fresh.ParseJSON([]byte(body), &o)
		if got, want := SessionKey(h, &reused, &o), SessionKey(h, &fresh, &o); got != want {
			t.Errorf("SessionKey of %q = %v, want %v", body, got, want)
		}
		if got, want := PrefixKey(h, &reused, &o, "", &a), PrefixKey(h, &fresh, &o, "", &b); got != want {
			t.Errorf("PrefixKey of %q = %v, want %v", body, got, want)
		}
	}
	reused.ParseJSON([]byte(full), &o)
	reused.Reset()
	if _, ok := reused.Model(); ok || reused.JSON() || SessionKey(h, &reused, &o).Valid() {
		t.Error("Reset leaves something of the body")
	}
}

// TestFactsKeepLittleMemory gives back what an unusual body needed.
func TestFactsKeepLittleMemory(t *testing.T) {
	o := DefaultKeyOptions()
	var f Facts
	long := strings.Repeat(`\n`, 1<<20)
	if !f.ParseJSON([]byte(`{"model":"`+long+`","session_id":"`+long+`"}`), &o) {
		t.Fatal("the body is valid")
	}
	f.Model()
	if !SessionKey(fieldLines{}, &f, &o).Valid() {
		t.Fatal("no key")
	}
	f.Reset()
	if kept := cap(f.modelText) + cap(f.keyText) + cap(f.norm.dst); kept > 3*keptScratch {
		t.Errorf("%d bytes kept", kept)
	}
}
