package routing

import "bytes"

// mediaParams reads the parameters of a field value such as Content-Type or
// Content-Disposition: `; name=value; name="quoted value"`.
type mediaParams struct{ rest []byte }

// paramsOf splits a field value into what stands before the first semicolon and
// the parameters.
func paramsOf(v []byte) (kind []byte, p mediaParams) {
	end := bytes.IndexByte(v, ';')
	if end < 0 {
		return trimBlank(v), mediaParams{}
	}
	return trimBlank(v[:end]), mediaParams{rest: v[end:]}
}

// next returns the next parameter; ok is false at the end and at what is no
// parameter.
func (p *mediaParams) next() (name []byte, value paramValue, ok bool) {
	rest := p.rest
	for len(rest) > 0 && (rest[0] == ';' || rest[0] == ' ' || rest[0] == '\t') {
		rest = rest[1:]
	}
	name, rest, ok = bytes.Cut(rest, []byte("="))
	if !ok {
		return nil, paramValue{}, false
	}
	if len(rest) > 0 && rest[0] == '"' {
		end := quotedEnd(rest)
		if end < 0 {
			return nil, paramValue{}, false
		}
		p.rest = rest[end+1:]
		return trimBlank(name), paramValue{rest[1:end], true}, true
	}
	end := bytes.IndexByte(rest, ';')
	if end < 0 {
		end = len(rest)
	}
	p.rest = rest[end:]
	return trimBlank(name), paramValue{trimBlank(rest[:end]), false}, true
}

// quotedEnd returns the position of the quote that closes the one at 0.
func quotedEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// paramValue is a parameter's value; in a quoted one a backslash quotes the
// byte behind it.
type paramValue struct {
	raw    []byte
	quoted bool
}

func (v paramValue) appendTo(dst []byte) []byte {
	for i := 0; i < len(v.raw); i++ {
		if v.quoted && v.raw[i] == '\\' && i+1 < len(v.raw) {
			i++
		}
		dst = append(dst, v.raw[i])
	}
	return dst
}

func (v paramValue) equal(s string) bool {
	if !v.quoted || bytes.IndexByte(v.raw, '\\') < 0 {
		return string(v.raw) == s
	}
	var text [16]byte
	return len(v.raw) <= len(text) && string(v.appendTo(text[:0])) == s
}

func trimBlank(b []byte) []byte { return bytes.Trim(b, " \t") }

// equalFoldASCII reports whether b is s, which is in lower case, with ASCII
// letters compared without case.
func equalFoldASCII(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != s[i] {
			return false
		}
	}
	return true
}
