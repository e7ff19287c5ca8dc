package routing

// AppendModelSplice appends body with the value of its top-level model replaced
// by served and returns the result: every other byte is as it was. A body
// without a model is appended unchanged. f holds the facts of this body.
//
// A caller that does not want a copy of a large body writes
// body[:start], AppendModelReplacement and body[end:] with the places of
// Facts.ModelSpan.
func AppendModelSplice(dst, body []byte, f *Facts, served string) []byte {
	start, end, ok := f.ModelSpan()
	if !ok {
		return append(dst, body...)
	}
	dst = append(dst, body[:start]...)
	dst = AppendModelReplacement(dst, f, served)
	return append(dst, body[end:]...)
}

// AppendModelReplacement appends what takes the place of the model's value when
// it becomes served: a JSON string with its quotes, or a form field's bytes.
func AppendModelReplacement(dst []byte, f *Facts, served string) []byte {
	if f.kind == bodyForm {
		return append(dst, served...)
	}
	return appendJSONString(dst, served)
}

// appendJSONString appends s, valid UTF-8, as a JSON string.
func appendJSONString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
