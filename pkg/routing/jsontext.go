package routing

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// rawText is the inside of a JSON string as it stands in a body that the
// scanner has found valid: escapes not yet resolved, quotes cut off.
type rawText []byte

// nextChar decodes the character at the front of t, which is not empty, and
// tells how many bytes it takes there. An escape that does not exist (the
// backslash and the character behind it) and a surrogate without its other half
// are U+FFFD.
func (t rawText) nextChar() (r rune, size int) {
	switch c := t[0]; {
	case c == '\\':
		return t.escape()
	case c < 0x80:
		return rune(c), 1
	case c < 0xE0:
		return rune(c&0x1F)<<6 | rune(t[1]&0x3F), 2
	case c < 0xF0:
		r = rune(c&0x0F)<<12 | rune(t[1]&0x3F)<<6 | rune(t[2]&0x3F)
		if isSurrogate(r) {
			r = utf8.RuneError
		}
		return r, 3
	default:
		return rune(c&0x07)<<18 | rune(t[1]&0x3F)<<12 | rune(t[2]&0x3F)<<6 | rune(t[3]&0x3F), 4
	}
}

// escape decodes the escape at the front of t.
func (t rawText) escape() (r rune, size int) {
	switch t[1] {
	case '"', '\\', '/':
		return rune(t[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		return t.unicodeEscape()
	}
	_, size = t[1:].nextChar()
	return utf8.RuneError, 1 + size
}

// unicodeEscape decodes \uXXXX, or two of them that form a pair.
func (t rawText) unicodeEscape() (r rune, size int) {
	high := t.hex()
	switch {
	case high < 0:
		return utf8.RuneError, 2
	case !isSurrogate(high):
		return high, 6
	case high < 0xDC00 && len(t) >= 12 && t[6] == '\\' && t[7] == 'u':
		if low := t[6:].hex(); 0xDC00 <= low && low <= 0xDFFF {
			return 0x10000 + ((high-0xD800)<<10 | (low - 0xDC00)), 12
		}
	}
	return utf8.RuneError, 6
}

// hex returns the value of the four hexadecimal digits behind \u, -1 if they
// are not four.
func (t rawText) hex() rune {
	if len(t) < 6 {
		return -1
	}
	var r rune
	for _, c := range t[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

func isSurrogate(r rune) bool { return 0xD800 <= r && r <= 0xDFFF }

// plain reports whether t's bytes are its text. surrogates is the scanner's.
func (t rawText) plain(surrogates bool) bool {
	return !surrogates && bytes.IndexByte(t, '\\') < 0
}

// appendText appends t's text as UTF-8.
func (t rawText) appendText(dst []byte, surrogates bool) []byte {
	for len(t) > 0 {
		run := t.run(surrogates)
		dst = append(dst, t[:run]...)
		if t = t[run:]; len(t) == 0 {
			break
		}
		r, size := t.nextChar()
		dst = utf8.AppendRune(dst, r)
		t = t[size:]
	}
	return dst
}

// run returns how many bytes at the front of t are their own text; what
// follows is then an escape or, in a body that has any, beyond ASCII.
func (t rawText) run(surrogates bool) int {
	if surrogates {
		i := bytes.IndexFunc(t, func(r rune) bool { return r == '\\' || r >= 0x80 })
		if i < 0 {
			return len(t)
		}
		return i
	}
	if i := bytes.IndexByte(t, '\\'); i >= 0 {
		return i
	}
	return len(t)
}

// equalFold reports whether t's text is name, ASCII letters compared without
// case; name is in lower case.
func (t rawText) equalFold(name string) bool {
	for i := range len(name) {
		if len(t) == 0 {
			return false
		}
		r, size := t.nextChar()
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		if r != rune(name[i]) {
			return false
		}
		t = t[size:]
	}
	return len(t) == 0
}

// trim returns the part of t whose text is t's text without the white space
// around it.
func (t rawText) trim() rawText {
	for len(t) > 0 {
		r, size := t.nextChar()
		if !unicode.IsSpace(r) {
			break
		}
		t = t[size:]
	}
	// An escape takes at most six bytes, so without a backslash among the last
	// six the last character is literal.
	for len(t) > 0 && bytes.IndexByte(t[max(0, len(t)-6):], '\\') < 0 {
		r, size := utf8.DecodeLastRune(t)
		if !unicode.IsSpace(r) {
			return t
		}
		t = t[:len(t)-size]
	}
	return t[:t.spaceEnd()]
}

// spaceEnd returns where the white space at the end of t begins: escapes can
// only be told apart from the front.
func (t rawText) spaceEnd() int {
	end := 0
	for i := 0; i < len(t); {
		run := t[i:].run(false)
		if kept := bytes.TrimRightFunc(t[i:i+run], unicode.IsSpace); len(kept) > 0 {
			end = i + len(kept)
		}
		if i += run; i < len(t) {
			r, size := t[i:].nextChar()
			if i += size; !unicode.IsSpace(r) {
				end = i
			}
		}
	}
	return end
}
