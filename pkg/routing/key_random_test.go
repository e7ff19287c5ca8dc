package routing

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// bodyMaker composes random bodies of all that bodies are known to hold.
type bodyMaker struct {
	*rand.Rand
	b bytes.Buffer
}

// chance is true once in n times.
func (m *bodyMaker) chance(n int) bool { return m.IntN(n) == 0 }

func oneOf[T any](m *bodyMaker, choices ...T) T { return choices[m.IntN(len(choices))] }

// space writes white space, mostly none.
func (m *bodyMaker) space() {
	if m.chance(12) {
		m.b.WriteString(oneOf(m, " ", "\n", "\r\n\t", "  ", "          ", "\n    \t   "))
	}
}

var makerWords = []string{
	"You", "are", "an", "EXPERT", "developer", "hello", "hello", "a", "Straße", "ΣΊΣΥΦΟΣ", "ς", "İ", "K", "ſ",
	"你好", "こんにちは", "😀", "🏳️‍🌈", "\u00a0", "\u3000", " ", "  ", "\n", "\t", "\u2028", "\x7f", "\u0000", "\u0007",
	`"`, `\`, "/", "�", "user", "a/b", "null", "undefined", "https://example.org/x?y=z&w", "x", "{", "]", ",", ":",
}

// text returns a random text, now and then a long one.
func (m *bodyMaker) text() string {
	var s strings.Builder
	for range m.IntN(5) {
		s.WriteString(oneOf(m, makerWords...))
		if m.chance(2) {
			s.WriteByte(' ')
		}
	}
	if m.chance(25) {
		return strings.Repeat(s.String(), 1+m.IntN(80))
	}
	return s.String()
}

// string writes s as a JSON string, each character in one of its spellings; if
// dirty, also with what should not be there.
func (m *bodyMaker) string(s string, dirty bool) {
	m.b.WriteByte('"')
	often := oneOf(m, 3, 30, 1000)
	for _, r := range s {
		switch {
		case r < ' ' || r == '"' || r == '\\' || m.chance(often):
			m.escaped(r)
		default:
			m.b.WriteRune(r)
		}
		if dirty && m.chance(often) {
			m.b.WriteString(oneOf(m, `\ud83d`, `\udc00`, `\udc00\udc00`, `\x`, `\u12`, `\uD8`, `\é`, `\U0041`, "\xED\xA0\x80", `\ud83d\u0041`, `\ud83d\ud83d\ude00`, `\'`, `\0`))
		}
	}
	m.b.WriteByte('"')
}

// escaped writes r as an escape.
func (m *bodyMaker) escaped(r rune) {
	const short = "\"\"\\\\//\bb\ff\nn\rr\tt"
	if i := strings.IndexRune(short, r); i >= 0 && r < 0x60 && m.chance(2) {
		m.b.WriteByte('\\')
		m.b.WriteByte(short[i+1])
		return
	}
	for _, unit := range utf16Units(r) {
		format := oneOf(m, `\u%04x`, `\u%04X`)
		fmt.Fprintf(&m.b, format, unit)
	}
}

func utf16Units(r rune) []rune {
	if r < 0x10000 {
		return []rune{r}
	}
	return []rune{0xD800 + (r-0x10000)>>10, 0xDC00 + (r-0x10000)&0x3FF}
}

// list writes n elements between open and its closer.
func (m *bodyMaker) list(open byte, n int, element func(i int)) {
	m.b.WriteByte(open)
	for i := range n {
		if i > 0 {
			m.b.WriteByte(',')
		}
		m.space()
		element(i)
		m.space()
	}
	m.b.WriteByte(open + 2)
}

// member writes a name and a colon.
func (m *bodyMaker) name(name string) {
	if m.chance(12) {
		m.b.WriteByte('"')
		for _, r := range name {
			if m.chance(3) {
				m.escaped(r)
			} else {
				m.b.WriteRune(r)
			}
		}
		m.b.WriteByte('"')
	} else {
		m.b.WriteString(`"` + name + `"`)
	}
	m.space()
	m.b.WriteByte(':')
	m.space()
}

// anything writes a value of any kind.
func (m *bodyMaker) anything(depth int) {
	switch n := m.IntN(10); {
	case n == 0 && depth < 4:
		m.list('[', m.IntN(4), func(int) { m.anything(depth + 1) })
	case n == 1 && depth < 4:
		m.list('{', m.IntN(4), func(int) {
			m.name(oneOf(m, "model", "text", "role", "messages", "x", ""))
			m.anything(depth + 1)
		})
	case n < 5:
		m.string(m.text(), true)
	case n == 5 && m.chance(20):
		m.b.WriteString(oneOf(m, "01", "1.", "-", "+1", ".5", "1e", "0x1", "nul", "True", "-NaN", "nan", "1.e5", "1e+", `'a'`, "--1"))
	default:
		m.b.WriteString(oneOf(m, "null", "true", "false", "0", "-0", "12", "-1.5e+10", "1E9", "0.25", "NaN", "Infinity", "-Infinity", "{}", "[]", "1e-7"))
	}
}

// part writes one part of a content array.
func (m *bodyMaker) part() {
	switch m.IntN(8) {
	case 0:
		m.string(m.text(), true)
	case 1:
		m.anything(2)
	case 2:
		m.b.WriteString(`{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgoAAA=="}}`)
	default:
		names := []string{"type", "text"}
		for range m.IntN(3) {
			names = append(names, oneOf(m, "text", "content", "value", "cache_control"))
		}
		m.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		m.list('{', len(names), func(i int) {
			m.name(names[i])
			if m.chance(6) {
				m.anything(3)
			} else {
				m.string(m.text(), false)
			}
		})
	}
}

// content writes a text, an array of parts, or something else.
func (m *bodyMaker) content() {
	switch m.IntN(8) {
	case 0, 1, 2, 3:
		m.string(m.text(), m.chance(3))
	case 4, 5, 6:
		m.list('[', m.IntN(4), func(int) { m.part() })
	default:
		m.anything(2)
	}
}

func (m *bodyMaker) message() {
	if m.chance(15) {
		m.anything(1)
		return
	}
	names := []string{"role", "content"}
	for range m.IntN(3) / 2 {
		names = append(names, oneOf(m, "role", "content", "name", "tool_calls"))
	}
	m.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if m.chance(15) {
		names = names[:m.IntN(len(names))]
	}
	m.list('{', len(names), func(i int) {
		m.name(names[i])
		switch names[i] {
		case "role":
			if m.chance(15) {
				m.anything(2)
				return
			}
			m.string(oneOf(m, "system", "developer", "user", "assistant", "tool", "System", "USER", "uſer", "", "users", "use"), m.chance(20))
		default:
			m.content()
		}
	})
}

func (m *bodyMaker) messages() {
	n := m.IntN(7)
	if m.chance(30) {
		n = 15 + m.IntN(30)
	}
	m.list('[', n, func(int) { m.message() })
}

// field writes the value of a top-level field.
func (m *bodyMaker) field(name string) {
	if m.chance(10) {
		m.anything(1)
		return
	}
	switch name {
	case "messages":
		m.messages()
	case "input":
		if m.chance(3) {
			m.string(m.text(), true)
		} else {
			m.messages()
		}
	case "system", "instructions":
		m.content()
	case "prompt", "documents":
		m.content()
	case "cache_key", "cacheKey", "prompt_cache_key":
		m.string(oneOf(m, "tenant-a/doc-42", " tenant-a/doc-42\n", "A.b_c:d/e=f-9", strings.Repeat("k", 127+m.IntN(4)), "bad key", "", " ", "ключ", m.text()), m.chance(10))
	case "session_id":
		m.string(oneOf(m, "user-1", "", " ", m.text()), m.chance(10))
	default:
		m.string(m.text(), m.chance(4))
	}
}

// makerFields are the top-level fields with how many bodies in 100 have them.
var makerFields = []struct {
	name    string
	percent int
}{
	{"model", 60}, {"messages", 45}, {"input", 20}, {"instructions", 10}, {"system", 12}, {"prompt", 25},
	{"session_id", 4}, {"prompt_cache_key", 6}, {"cache_key", 6}, {"cacheKey", 6}, {"prefix", 8},
	{"document_context", 6}, {"documentContext", 5}, {"context", 5}, {"documents", 12},
	{"previous_response_id", 4}, {"temperature", 30}, {"tools", 15}, {"stream", 20},
}

// body returns a random body, mostly a valid one.
func (m *bodyMaker) body() []byte {
	m.b.Reset()
	if m.chance(30) {
		m.b.WriteString("\uFEFF")
	}
	m.space()
	var names []string
	for _, f := range makerFields {
		for m.IntN(100) < f.percent {
			names = append(names, f.name)
			if !m.chance(8) { // else twice, or more often
				break
			}
		}
	}
	m.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	m.list('{', len(names), func(i int) {
		m.name(names[i])
		if names[i] == "tools" {
			m.tools()
			return
		}
		m.field(names[i])
	})
	m.space()
	body := slices.Clone(m.b.Bytes())
	if m.chance(12) {
		body = m.damage(body)
	}
	return body
}

// tools writes a value that no key reads, now and then nested at the limit.
func (m *bodyMaker) tools() {
	if !m.chance(300) {
		m.anything(0)
		return
	}
	n := maxNesting - 2 + m.IntN(3) // with the body itself: one below, at and beyond
	m.b.WriteString(strings.Repeat("[", n))
	m.b.WriteString(strings.Repeat("]", n))
}

// damage changes a body in a way that mostly makes it invalid.
func (m *bodyMaker) damage(body []byte) []byte {
	at := m.IntN(len(body) + 1)
	switch m.IntN(5) {
	case 0:
		return body[:at]
	case 1:
		return slices.Insert(body, at, oneOf(m, ",", "}", `"`, "\\", "\x00", "\x1f", "\xff", "\xc3", "\xe2\x82", "\xf5", "\xed\xb0\x80", "]", "0", " ", "\n")[0])
	case 2:
		return append(body, oneOf(m, "x", "{}", ",", "\x00", "null")...)
	case 3:
		if at < len(body) {
			return slices.Delete(body, at, at+1)
		}
		return oneOf(m, []byte(nil), []byte("[]"), []byte(`"model"`), []byte("\uFEFF"), []byte(" "), []byte("null"), []byte("\xff\xfe{\x00}\x00"), []byte("{\x00}\x00"))
	default:
		if at < len(body) {
			body[at] ^= byte(1 << m.IntN(8))
		}
		return body
	}
}

// headers returns random header fields, mostly none.
func (m *bodyMaker) headers() fieldLines {
	var h fieldLines
	add := func(n int, name string, values ...string) {
		if m.chance(n) {
			h = append(h, name, oneOf(m, values...))
		}
	}
	add(20, "X-Session-Id", "s-1", " s-1 ", "", "  ")
	add(20, "X-Conversation-Id", "c-1", "\tc-1", "")
	add(20, "X-Flexinfer-Cache-Key", "tenant-a/doc-42", " tenant-a/doc-42 ", "bad key", "", strings.Repeat("k", 129), strings.Repeat("k", 128))
	add(15, "Thread-Id", "t-1", "null", "undefined", "", strings.Repeat("t", 1024), strings.Repeat("t", 1025))
	add(25, "Session_id", "u-1", "null")
	add(25, "X-Request-Id", "r-1")
	return h
}

// compareWithOracle parses body and checks all that the package finds against
// the oracle. f is reused, as on the hot path.
func compareWithOracle(t *testing.T, f *Facts, h fieldLines, body []byte, o *KeyOptions, identity string) (session, prefix Key) {
	t.Helper()
	q := &oracle{h: h, body: body, root: oracleParse(body), o: o}
	before := slices.Clone(body)
	if got, want := f.ParseJSON(body, o), q.root != nil; got != want || f.JSON() != want {
		t.Fatalf("ParseJSON = %v, JSON = %v, want %v\nbody %q", got, f.JSON(), want, body)
	}
	name, ok := f.Model()
	if m := q.root.member("model"); ok != m.is('"') || ok && string(name) != m.text {
		t.Fatalf("Model = %q, %v, want %+v\nbody %q", name, ok, m, body)
	}
	session = SessionKey(h, f, o)
	if want := q.sessionKey(); session != want {
		t.Fatalf("SessionKey = %v, want %v\nheaders %q\nbody %q", session, want, h, body)
	}
	var malformed Malformed
	prefix = PrefixKey(h, f, o, identity, &malformed)
	if want, wantMalformed := q.prefixKey(identity); prefix != want || malformed != wantMalformed {
		t.Fatalf("PrefixKey = %v, %+v, want %v, %+v\nheaders %q\nbody %q", prefix, malformed, want, wantMalformed, h, body)
	}
	const served = `org/Model "7B" ü`
	if got, want := AppendModelSplice(nil, body, f, served), q.splice(served); !bytes.Equal(got, want) {
		t.Fatalf("AppendModelSplice\n got %q\nwant %q", got, want)
	}
	if !bytes.Equal(before, body) {
		t.Fatalf("the body was changed\n from %q\n   to %q", before, body)
	}
	return session, prefix
}

// TestKeysAgreeWithOracle compares keys, sources, model and splice with the
// oracle over random bodies and headers.
func TestKeysAgreeWithOracle(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m := &bodyMaker{Rand: rand.New(rand.NewPCG(seed, 0))}
	defaults := DefaultKeyOptions()
	small := KeyOptions{ExplicitKeyMaxLength: 8, SystemSegmentMaxLength: 7, DocumentSegmentMaxLength: 5}
	var f Facts
	var seen [NumKeySources]int
	valid, models, bytesRead := 0, 0, 0
	for range randomBodies {
		o, identity := &defaults, "prod/llama-3"
		if m.chance(4) {
			o = &small
		}
		if m.chance(3) {
			identity = ""
		}
		body, h := m.body(), m.headers()
		session, prefix := compareWithOracle(t, &f, h, body, o, identity)
		seen[session.Source]++
		seen[prefix.Source]++
		bytesRead += len(body)
		if f.JSON() {
			valid++
		}
		if _, ok := f.Model(); ok {
			models++
		}
	}
	t.Logf("%d bodies of %d bytes on average, %d valid, %d with a model", randomBodies, bytesRead/randomBodies, valid, models)
	for s, n := range seen {
		t.Logf("%-22s %d", KeySource(s), n)
		if n < randomBodies/1000 {
			t.Errorf("key source %s came up %d times: the bodies do not test it", KeySource(s), n)
		}
	}
	if valid < randomBodies/2 || valid > randomBodies*99/100 || models < randomBodies/4 {
		t.Error("the bodies are too one-sided")
	}
}

// TestBodyMakerText keeps the word list honest: a text is valid UTF-8, or every
// body with it would be invalid.
func TestBodyMakerText(t *testing.T) {
	for _, w := range makerWords {
		if !utf8.ValidString(w) {
			t.Errorf("%q is no valid UTF-8", w)
		}
	}
}
