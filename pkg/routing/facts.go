package routing

// Facts is what one pass over a request body found: the places of everything
// that a routing key, a match on the model or the model splice can need. Keys
// are computed from it later, since which one is wanted is known only after
// matching.
//
// The zero Facts is that of a request without a body. A Facts is reused from
// request to request and belongs to one goroutine; what it hands out refers to
// the body or to its own memory and is valid until the next Parse or Reset.
// After its first requests it allocates nothing.
type Facts struct {
	body  []byte
	kind  bodyKind
	model jsonSpan // the raw value: with quotes in JSON, the field's bytes in a form

	fields   [numBodyFields]jsonSpan
	messages conversation // of the field messages
	input    conversation // of the field input

	scan      jsonScanner
	norm      normalizer
	hash      partHasher
	modelText []byte // memory for a model name or a form's boundary
	keyText   []byte // memory for an unescaped key
}

// bodyKind says what a body turned out to be.
type bodyKind uint8

const (
	bodyNone bodyKind = iota
	bodyJSON
	bodyForm
)

// jsonSpan is a place in the body. Nothing a span is taken of starts at 0, so
// the zero span means that there is none.
type jsonSpan struct{ start, end int }

// keptScratch is the most memory of each kind that a Facts keeps between
// requests, in bytes.
const keptScratch = 64 << 10

// Reset forgets the body.
func (f *Facts) Reset() {
	f.body, f.kind, f.model = nil, bodyNone, jsonSpan{}
	f.fields = [numBodyFields]jsonSpan{}
	f.messages.reset()
	f.input.reset()
	f.scan.reset(nil)
	if cap(f.modelText) > keptScratch {
		f.modelText = nil
	}
	if cap(f.keyText) > keptScratch {
		f.keyText = nil
	}
	if cap(f.norm.dst) > keptScratch {
		f.norm.dst = nil
	}
}

// JSON reports whether the body is a JSON object and takes part in keys.
func (f *Facts) JSON() bool { return f.kind == bodyJSON }

// Model returns the value of the top-level field model, unescaped; ok is false
// when there is none or it is no string. It is whatever the client sent: empty,
// megabytes long, with line breaks in it. Who puts it into a header field or a
// log checks it first.
func (f *Facts) Model() (name []byte, ok bool) {
	if f.model.end == 0 {
		return nil, false
	}
	if f.kind == bodyForm {
		return f.body[f.model.start:f.model.end], true
	}
	t := f.inside(f.model)
	if t.plain(f.scan.surrogates) {
		return t, true
	}
	f.modelText = t.appendText(f.modelText[:0], f.scan.surrogates)
	return f.modelText, true
}

// ModelSpan returns where the value that Model returns stands in the body: a
// JSON string with its quotes, a form field's bytes.
func (f *Facts) ModelSpan() (start, end int, ok bool) {
	return f.model.start, f.model.end, f.model.end != 0
}

// kindOf returns the first byte of the value at v, which tells its JSON kind,
// and 0 if there is none.
func (f *Facts) kindOf(v jsonSpan) byte {
	if v.end == 0 {
		return 0
	}
	return f.body[v.start]
}

// inside returns the text of the string at v.
func (f *Facts) inside(v jsonSpan) rawText { return rawText(f.body[v.start+1 : v.end-1]) }

// text returns the text of a top-level string; ok is false when the field is
// absent, of another kind, or empty.
func (f *Facts) text(field bodyField) (t rawText, ok bool) {
	v := f.fields[field]
	if f.kindOf(v) != '"' || v.end-v.start == 2 {
		return nil, false
	}
	return f.inside(v), true
}
