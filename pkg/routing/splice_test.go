package routing

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestAppendModelSplice(t *testing.T) {
	o := DefaultKeyOptions()
	f := func(body, served, want string) {
		t.Helper()
		var facts Facts
		facts.ParseJSON([]byte(body), &o)
		if got := AppendModelSplice([]byte("front"), []byte(body), &facts, served); string(got) != "front"+want {
			t.Errorf("AppendModelSplice(%q, %q) = %q, want %q", body, served, got, "front"+want)
		}
	}
	f(`{"model":"a"}`, "org/b", `{"model":"org/b"}`)
	f(" {\n\t\"x\" : 1.50e+02 ,\"model\" :\"a\\u0062\" , \"y\":\"\\u0041\"}\n", "b", " {\n\t\"x\" : 1.50e+02 ,\"model\" :\"b\" , \"y\":\"\\u0041\"}\n")
	f("\uFEFF{\"model\":\"a\"}", "b", "\uFEFF{\"model\":\"b\"}")
	f(`{"model":"a","model":"b","n":NaN}`, "c", `{"model":"a","model":"c","n":NaN}`)
	f(`{"m\u006fdel":"a"}`, "b", `{"m\u006fdel":"b"}`)
	f(`{"model":""}`, "b", `{"model":"b"}`)
	f(`{"model":"a"}`, "q\"\\\n\x01ü😀<>&", `{"model":"q\"\\\u000a\u0001ü😀<>&"}`)
	f(`{"model":"a"}`, "", `{"model":""}`)
	// Nothing to replace.
	f(`{"x":{"model":"a"}}`, "b", `{"x":{"model":"a"}}`)
	f(`{"model":7}`, "b", `{"model":7}`)
	f(`{"model":"a"`, "b", `{"model":"a"`)
	f(``, "b", ``)
}

// TestAppendModelReplacement writes a body around the replacement, as callers do
// that do not want to copy it.
func TestAppendModelReplacement(t *testing.T) {
	o := DefaultKeyOptions()
	f := func(facts *Facts, body []byte) {
		t.Helper()
		start, end, ok := facts.ModelSpan()
		if !ok {
			t.Fatalf("no model in %q", body)
		}
		var b bytes.Buffer
		b.Write(body[:start])
		b.Write(AppendModelReplacement(nil, facts, "served"))
		b.Write(body[end:])
		if want := AppendModelSplice(nil, body, facts, "served"); !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%q, want %q", b.Bytes(), want)
		}
	}
	var facts Facts
	body := []byte(`{"model":"a","x":1}`)
	facts.ParseJSON(body, &o)
	f(&facts, body)
	form := audioForm(100)
	facts.ParseMultipart([]byte(audioFormType), form)
	f(&facts, form)
	if got := AppendModelSplice(nil, form, &facts, "served"); !bytes.Contains(got, []byte("\r\n\r\nserved\r\n--")) {
		t.Errorf("%q", got[len(got)-100:])
	}
}

func TestAppendJSONString(t *testing.T) {
	for c := range 0x80 {
		s := "a" + string(rune(c)) + "ü"
		var got string
		if err := json.Unmarshal(appendJSONString(nil, s), &got); err != nil || got != s {
			t.Errorf("%q became %s: %q, %v", s, appendJSONString(nil, s), got, err)
		}
	}
}
