package routing

import (
	"unicode"
	"unicode/utf8"
)

// normalizer collects the normalised form of texts: each run of white space one
// space, none at either end, letters lower-cased by simple folding, cut to
// limit bytes at a rune boundary. It looks at no more text than that takes.
type normalizer struct {
	dst   []byte
	limit int
	space bool // white space is due before the next letter
	full  bool // the next character did not fit
}

// reset starts a text of at most limit bytes and keeps the memory.
func (n *normalizer) reset(limit int) {
	*n = normalizer{dst: n.dst[:0], limit: limit}
}

// add appends t's text and returns whether more fits.
func (n *normalizer) add(t rawText) bool {
	for len(t) > 0 && !n.full {
		t = t[n.addASCII(t):]
		if len(t) > 0 && !n.full {
			r, size := t.nextChar()
			n.addRune(r)
			t = t[size:]
		}
	}
	return !n.full
}

// addBreak separates what follows from what came before.
func (n *normalizer) addBreak() { n.space = true }

// addASCII is add for the characters at the front of t that stand for
// themselves and are ASCII; it returns how many those are.
func (n *normalizer) addASCII(t rawText) int {
	dst, space := n.dst, n.space
	i := 0
	for i < len(t) {
		c := asciiFold[t[i]]
		if c == ' ' {
			space = true
			i++
			continue
		}
		if c == 0 {
			break
		}
		if space {
			if len(dst) > 0 && len(dst) < n.limit {
				dst = append(dst, ' ')
			}
			space = false
		}
		if len(dst) >= n.limit {
			n.full = true
			break
		}
		dst = append(dst, c)
		i++
	}
	n.dst, n.space = dst, space
	return i
}

// addRune appends a character.
func (n *normalizer) addRune(r rune) {
	if unicode.IsSpace(r) {
		n.space = true
		return
	}
	if n.space && len(n.dst) > 0 && len(n.dst) < n.limit {
		n.dst = append(n.dst, ' ')
	}
	n.space = false
	r = foldRune(r)
	if len(n.dst)+utf8.RuneLen(r) > n.limit {
		n.full = true
		return
	}
	n.dst = utf8.AppendRune(n.dst, r)
}

// asciiFold maps a byte of a rawText that stands for itself to its normalised
// form, white space to a space, and all others to 0.
var asciiFold = func() (table [256]byte) {
	for c := range utf8.RuneSelf {
		table[c] = byte(unicode.ToLower(rune(c)))
		if unicode.IsSpace(rune(c)) {
			table[c] = ' '
		}
	}
	table['\\'] = 0
	return table
}()

// foldTableLen covers Latin, Greek, Cyrillic and Armenian.
const foldTableLen = 0x590

var foldTable = func() (table [foldTableLen]uint16) {
	for r := range table {
		table[r] = uint16(foldSlow(rune(r)))
	}
	return table
}()

// foldRune maps all characters that differ in case only to one of them, the
// lower-case form of the first.
func foldRune(r rune) rune {
	switch {
	case r < foldTableLen:
		return rune(foldTable[r])
	case 0x2E80 <= r && r < 0xA640, 0xAC00 <= r && r < 0xFB00: // East Asia: no case
		return r
	}
	return foldSlow(r)
}

func foldSlow(r rune) rune {
	first := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		first = min(first, next)
	}
	return unicode.ToLower(first)
}
