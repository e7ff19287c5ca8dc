package routing

// bodyField is a top-level field of a JSON body that keys are made of.
type bodyField uint8

const (
	noField bodyField = iota
	fieldModel
	fieldMessages
	fieldInput
	fieldInstructions
	fieldSystem
	fieldPrompt
	fieldSessionID
	fieldPromptCacheKey
	fieldCacheKey
	fieldCacheKeyCamel
	fieldPrefix
	fieldDocumentContext
	fieldDocumentContextCamel
	fieldContext
	fieldDocuments
	fieldPreviousResponseID

	numBodyFields
)

// bodyFieldOf tells the field by its name.
func bodyFieldOf(name []byte) bodyField {
	switch string(name) {
	case "model":
		return fieldModel
	case "messages":
		return fieldMessages
	case "input":
		return fieldInput
	case "instructions":
		return fieldInstructions
	case "system":
		return fieldSystem
	case "prompt":
		return fieldPrompt
	case "session_id":
		return fieldSessionID
	case "prompt_cache_key":
		return fieldPromptCacheKey
	case "cache_key":
		return fieldCacheKey
	case "cacheKey":
		return fieldCacheKeyCamel
	case "prefix":
		return fieldPrefix
	case "document_context":
		return fieldDocumentContext
	case "documentContext":
		return fieldDocumentContextCamel
	case "context":
		return fieldContext
	case "documents":
		return fieldDocuments
	case "previous_response_id":
		return fieldPreviousResponseID
	}
	return noField
}

// ParseJSON reads body, whatever its content type, and reports whether it is a
// JSON object and so takes part; if not, f is as after Reset. A byte-order mark
// in front is skipped. Of fields that are given twice the last one counts.
//
// Whether the method lets a body take part is for the caller to know.
//
// Cost: one pass, no allocation, for any body (TestKeyAllocs).
func (f *Facts) ParseJSON(body []byte, o *KeyOptions) bool {
	f.Reset()
	f.body = body
	f.scan.reset(body)
	if !f.object(o) {
		f.Reset()
		return false
	}
	f.kind = bodyJSON
	if v := f.fields[fieldModel]; f.kindOf(v) == '"' {
		f.model = v
	}
	return true
}

// object reads the whole body.
func (f *Facts) object(o *KeyOptions) bool {
	b, i := f.body, 0
	if len(b) >= 3 && string(b[:3]) == "\xEF\xBB\xBF" {
		i = 3
	}
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	i, more := f.scan.first(i)
	for more {
		nameStart := i + 1
		nameEnd, start := f.scan.member(i)
		if start < 0 {
			return false
		}
		field := bodyFieldOf(f.name(nameStart, nameEnd))
		if i = f.fieldValue(field, start, o); i < 0 {
			return false
		}
		f.fields[field] = jsonSpan{start, i}
		i, more = f.scan.next(i, '}')
	}
	return i >= 0 && skipSpace(b, i) == len(b)
}

// fieldValue reads the value of a top-level field.
func (f *Facts) fieldValue(field bodyField, i int, o *KeyOptions) int {
	if i < len(f.body) && f.body[i] == '[' {
		switch field {
		case fieldMessages:
			return f.conversation(&f.messages, i, o)
		case fieldInput:
			return f.conversation(&f.input, i, o)
		}
	}
	return f.scan.value(i, 1)
}

// name returns the text of a member's name, or, where it has escapes, as much
// of it as a known name may have.
func (f *Facts) name(start, end int) []byte {
	raw := rawText(f.body[start:end])
	if raw.plain(false) {
		return raw
	}
	// No known name has a character beyond ASCII, so a name of that many
	// escapes is not known.
	const longestKnown, longestEscape = 20, 6
	if len(raw) > longestKnown*longestEscape {
		return nil
	}
	f.keyText = raw.appendText(f.keyText[:0], false)
	return f.keyText
}
