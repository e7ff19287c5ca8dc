package routing

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// The oracle computes keys, sources, model and splice a second time, slowly and
// on other ground: encoding/json says what is valid and what strings mean,
// regular expressions find the tokens, a tree of values is built, and what is
// hashed is written to a buffer first. Where the contract departs from
// encoding/json, the text is translated before.

var (
	oracleString   = regexp.MustCompile(`^"(?s:[^"\\]|\\.)*"`)
	oracleWord     = regexp.MustCompile(`^[-+.0-9A-Za-z]+`)
	oracleEscape   = regexp.MustCompile(`\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}|[^\x00-\x1F])`)
	oraclePair     = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|` + oracleEscape.String())
	oracleGoodEsc  = regexp.MustCompile(`^\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})$`)
	oracleExplicit = regexp.MustCompile(`^[A-Za-z0-9._:/=-]+$`)
)

// oracleValue is a JSON value with its place in the body.
type oracleValue struct {
	kind       byte // '{' '[' '"' or 'w' for numbers and literals
	start, end int
	text       string // of a string
	names      []string
	values     []*oracleValue // of members or elements
}

// member returns the last member of that name, nil if there is none.
func (v *oracleValue) member(name string) *oracleValue {
	if v == nil || v.kind != '{' {
		return nil
	}
	for i, n := range slices.Backward(v.names) {
		if n == name {
			return v.values[i]
		}
	}
	return nil
}

func (v *oracleValue) is(kind byte) bool { return v != nil && v.kind == kind }

// str returns the member's text if it is a string.
func (v *oracleValue) str(name string) string {
	if m := v.member(name); m.is('"') {
		return m.text
	}
	return ""
}

type oracleToken struct {
	kind       byte // the byte itself for punctuation, '"', 'w'
	start, end int
	translated string // as encoding/json shall see it
}

// oracleTokens splits body; ok is false where something is no token at all.
func oracleTokens(body []byte) (tokens []oracleToken, ok bool) {
	i := len(body) - len(bytes.TrimPrefix(body, []byte("\xEF\xBB\xBF")))
	for i < len(body) {
		rest := body[i:]
		t := oracleToken{kind: rest[0], start: i, end: i + 1}
		switch c := rest[0]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			i++
			continue
		case strings.IndexByte("{}[]:,", c) >= 0:
			t.translated = string(c)
		case c == '"':
			m := oracleString.Find(rest)
			if m == nil {
				return nil, false
			}
			t.end = i + len(m)
			t.translated = oracleEscape.ReplaceAllStringFunc(string(m), func(e string) string {
				if oracleGoodEsc.MatchString(e) {
					return e
				}
				return `\ufffd`
			})
		default:
			m := oracleWord.Find(rest)
			if m == nil {
				return nil, false
			}
			t.kind, t.end, t.translated = 'w', i+len(m), string(m)
			if slices.Contains([]string{"NaN", "Infinity", "-Infinity"}, t.translated) {
				t.translated = "0"
			}
		}
		tokens = append(tokens, t)
		i = t.end
	}
	return tokens, true
}

// oracleParse returns the object that body holds, nil if it takes no part.
func oracleParse(body []byte) *oracleValue {
	readable := replaceSurrogates(body)
	if !utf8.Valid(readable) {
		return nil
	}
	tokens, ok := oracleTokens(readable)
	if !ok || len(tokens) == 0 || tokens[0].kind != '{' {
		return nil
	}
	var translated strings.Builder
	for _, t := range tokens {
		translated.WriteString(t.translated)
		translated.WriteByte(' ')
	}
	if !json.Valid([]byte(translated.String())) {
		return nil
	}
	v, rest := oracleTree(tokens)
	if len(rest) > 0 {
		panic("BUG: encoding/json took what the tree does not")
	}
	return v
}

// replaceSurrogates replaces encoded surrogate halves by U+FFFD, which is as
// long.
func replaceSurrogates(body []byte) []byte {
	readable := slices.Clone(body)
	for i := 0; i+3 <= len(readable); i++ {
		if readable[i] == 0xED && readable[i+1]&0xE0 == 0xA0 && readable[i+2]&0xC0 == 0x80 {
			copy(readable[i:], "\uFFFD")
		}
	}
	return readable
}

func oracleTree(tokens []oracleToken) (*oracleValue, []oracleToken) {
	t := tokens[0]
	tokens = tokens[1:]
	v := &oracleValue{kind: t.kind, start: t.start, end: t.end}
	switch t.kind {
	case '"':
		if err := json.Unmarshal([]byte(t.translated), &v.text); err != nil {
			panic("BUG: " + err.Error())
		}
	case '{', '[':
		for tokens[0].kind != t.kind+2 {
			if t.kind == '{' {
				var name *oracleValue
				name, tokens = oracleTree(tokens)
				v.names = append(v.names, name.text)
				tokens = tokens[1:] // colon
			}
			var m *oracleValue
			m, tokens = oracleTree(tokens)
			v.values = append(v.values, m)
			if tokens[0].kind == ',' {
				tokens = tokens[1:]
			}
		}
		v.end = tokens[0].end
		tokens = tokens[1:]
	}
	return v, tokens
}

// oracleContent is the text of a content.
func oracleContent(v *oracleValue) string {
	if v.is('"') {
		return v.text
	}
	if !v.is('[') {
		return ""
	}
	var texts []string
	for _, p := range v.values {
		if t := oraclePart(p); t != "" {
			texts = append(texts, t)
		}
	}
	return strings.Join(texts, " ")
}

func oraclePart(p *oracleValue) string {
	if p.is('"') {
		return strings.TrimSpace(p.text)
	}
	for _, name := range []string{"text", "content", "value"} {
		if t := strings.TrimSpace(p.str(name)); t != "" {
			return t
		}
	}
	return ""
}

// oracleNormal is normalised text, cut.
func oracleNormal(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return unicode.ToLower(least)
	}, strings.Join(strings.Fields(s), " "))
	if len(s) > limit {
		for !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit]
	}
	return s
}

// oracleParts is what is hashed.
type oracleParts struct{ bytes.Buffer }

func (p *oracleParts) part(tag byte, s string) {
	p.WriteString(s)
	_ = binary.Write(p, binary.LittleEndian, uint64(len(s)))
	p.WriteByte(tag)
}

// oracle holds one request.
type oracle struct {
	h    fieldLines
	body []byte
	root *oracleValue // nil without a body that takes part
	o    *KeyOptions
}

func (q *oracle) header(name string) string { return strings.TrimSpace(string(q.h.Value(name))) }

func (q *oracle) raw(v *oracleValue) string { return string(q.body[v.start:v.end]) }

func (q *oracle) sessionKey() Key {
	id := func(s string, source KeySource) Key { return Key{xxh3.HashStringSeed(s, 'i'), source} }
	client := func(s string) bool {
		return s != "" && s != "null" && s != "undefined" && len(s) <= 1024
	}
	if v := q.header("X-Session-Id"); v != "" {
		return id(v, SourceSessionHeader)
	}
	if v := q.header("X-Conversation-Id"); v != "" {
		return id(v, SourceConversationHeader)
	}
	if v := q.root.str("session_id"); v != "" {
		return id(v, SourceSessionBody)
	}
	for _, name := range q.o.SessionHeaders {
		if v := q.header(name); client(v) {
			return id(v, SourceSessionClientHeader)
		}
	}
	if v := q.root.str("prompt_cache_key"); client(v) {
		return id(v, SourceSessionCacheKey)
	}
	if p := q.opening(); p != nil {
		return Key{xxh3.Hash(p.Bytes()), SourceSessionMessages}
	}
	return Key{}
}

func (q *oracle) opening() *oracleParts {
	if q.root.str("previous_response_id") != "" {
		return nil
	}
	p := &oracleParts{}
	if s := oracleContent(q.root.member("system")); s != "" {
		p.part('s', s)
	}
	if s := oracleContent(q.root.member("instructions")); s != "" {
		p.part('n', s)
	}
	messages := q.root.member("messages")
	if !messages.is('[') {
		messages = q.root.member("input")
	}
	switch {
	case messages.is('"'):
		if messages.text == "" {
			return nil
		}
		p.part('r', "user")
		p.part('t', messages.text)
		return p
	case messages.is('['):
		return q.openingMessages(p, messages)
	}
	s, isText := q.prompt()
	switch {
	case s == "":
		return nil
	case isText:
		p.part('t', s)
	default:
		p.part('j', s)
	}
	return p
}

func (q *oracle) openingMessages(p *oracleParts, messages *oracleValue) *oracleParts {
	n := 0
	for _, m := range messages.values {
		if m.kind != '{' {
			continue
		}
		role := m.str("role")
		for _, known := range []string{"user", "system", "developer"} {
			if oracleSameFold(role, known) {
				role = known
			}
		}
		p.part('r', role)
		if s := oracleContent(m.member("content")); s != "" {
			p.part('t', s)
		} else {
			p.part('j', q.raw(m))
		}
		if n++; n == 5 || role == "user" {
			break
		}
	}
	if n == 0 {
		return nil
	}
	return p
}

// oracleSameFold compares ASCII letters without case.
func oracleSameFold(s, known string) bool {
	return len(s) == len(known) && strings.EqualFold(s, known)
}

func (q *oracle) prompt() (s string, isText bool) {
	v := q.root.member("prompt")
	if v.is('"') {
		return v.text, true
	}
	if !v.is('[') || len(v.values) == 0 {
		return "", false
	}
	first := v.values[0]
	switch word := q.raw(first); {
	case first.kind == '"':
		return first.text, true
	case word == "null":
		return "", false
	case word == "true", word == "false", first.kind == '[':
		return word, false
	case first.kind == '{':
		if s = oraclePart(first); s != "" {
			return s, true
		}
		return word, false
	}
	return q.raw(v), false
}

func (q *oracle) prefixKey(identity string) (k Key, m Malformed) {
	explicit := func(s string) bool {
		return len(s) <= q.o.ExplicitKeyMaxLength && oracleExplicit.MatchString(s)
	}
	if v := q.header("X-Flexinfer-Cache-Key"); explicit(v) {
		return Key{xxh3.HashStringSeed(v, 'k'), SourceExplicitHeader}, m
	} else if v != "" {
		m.Header = true
	}
	for _, name := range []string{"cache_key", "cacheKey", "prompt_cache_key"} {
		v := strings.TrimSpace(q.root.str(name))
		if explicit(v) {
			return Key{xxh3.HashStringSeed(v, 'k'), SourceExplicitBody}, m
		}
		m.Body = m.Body || v != ""
	}
	if v := oracleNormal(q.root.str("prefix"), q.o.SystemSegmentMaxLength); v != "" {
		return Key{xxh3.HashStringSeed(v, 'x'), SourcePrefixField}, m
	}
	if p := q.canonical(identity); p != nil {
		return Key{xxh3.Hash(p.Bytes()), SourceCanonical}, m
	}
	if k = q.sessionKey(); k.Valid() {
		k.Source = SourceSessionFallback
	}
	return k, m
}

func (q *oracle) canonical(identity string) *oracleParts {
	if q.root == nil {
		return nil
	}
	p := &oracleParts{}
	if identity == "" {
		identity = q.root.str("model")
	}
	p.part('m', identity)
	modelOnly := p.Len()
	segment := func(p *oracleParts, tag byte, s string) {
		if s = oracleNormal(s, q.o.SystemSegmentMaxLength); s != "" {
			p.part(tag, s)
		}
	}
	segment(p, 's', oracleContent(q.root.member("system")))
	segment(p, 's', oracleContent(q.root.member("instructions")))
	messages := q.root.member("messages")
	if !messages.is('[') {
		messages = q.root.member("input")
	}
	switch {
	case messages.is('['):
		system, further := 0, &oracleParts{}
		for _, m := range messages.values {
			if role := m.str("role"); !oracleSameFold(role, "system") && !oracleSameFold(role, "developer") {
				continue
			}
			if system++; system <= 16 {
				segment(p, 's', oracleContent(m.member("content")))
			} else {
				segment(further, 's', oracleContent(m.member("content")))
			}
		}
		if further.Len() > 0 {
			p.part('f', string(binary.LittleEndian.AppendUint64(nil, xxh3.Hash(further.Bytes()))))
		}
	case messages.is('"'):
	default:
		if s, isText := q.prompt(); isText {
			segment(p, 's', s)
		} else {
			segment(p, 'j', oracleRawText(s))
		}
	}
	if d := q.document(); d != "" {
		p.part('d', d)
	}
	if p.Len() == modelOnly {
		return nil
	}
	return p
}

// oracleRawText reads raw JSON as if it were the inside of a string.
func oracleRawText(s string) string {
	return oraclePair.ReplaceAllStringFunc(string(replaceSurrogates([]byte(s))), func(e string) string {
		var text string
		if json.Unmarshal([]byte(`"`+e+`"`), &text) != nil {
			return "\uFFFD"
		}
		return text
	})
}

func (q *oracle) document() string {
	for _, name := range []string{"document_context", "documentContext", "context"} {
		if s := oracleNormal(q.root.str(name), q.o.DocumentSegmentMaxLength); s != "" {
			return s
		}
	}
	if v := q.root.member("documents"); v.is('[') && len(v.values) > 0 {
		return oracleNormal(oraclePart(v.values[0]), q.o.DocumentSegmentMaxLength)
	}
	return ""
}

// splice replaces the model, if there is any.
func (q *oracle) splice(served string) []byte {
	m := q.root.member("model")
	if !m.is('"') {
		return slices.Clone(q.body)
	}
	quoted, err := json.Marshal(served)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return slices.Concat(q.body[:m.start], quoted, q.body[m.end:])
}
