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
		c := t[0]
		if c >= 0x80 || c == '\\' {
			r, size := t.nextChar()
			n.rune(r)
			t = t[size:]
			continue
		}
		t = t[1:]
		if c = asciiFold[c]; c == ' ' {
			n.space = true
			continue
		}
		if n.space || len(n.dst) >= n.limit {
			n.separate()
			if n.full = n.full || len(n.dst) >= n.limit; n.full {
				break
			}
		}
		n.dst = append(n.dst, c)
	}
	return !n.full
}

// addBreak separates what follows from what came before.
func (n *normalizer) addBreak() { n.space = true }

// separate writes the space that is due.
func (n *normalizer) separate() {
	if n.space && len(n.dst) > 0 {
		if len(n.dst) >= n.limit {
			n.full = true
			return
		}
		n.dst = append(n.dst, ' ')
	}
	n.space = false
}

func (n *normalizer) rune(r rune) {
	if unicode.IsSpace(r) {
		n.space = true
		return
	}
	n.separate()
	r = foldRune(r)
	if n.full || len(n.dst)+utf8.RuneLen(r) > n.limit {
		n.full = true
		return
	}
	n.dst = utf8.AppendRune(n.dst, r)
}

// asciiFold maps ASCII to its normalised form, all white space to a space.
var asciiFold = func() (table [128]byte) {
	for c := range table {
		table[c] = byte(unicode.ToLower(rune(c)))
		if unicode.IsSpace(rune(c)) {
			table[c] = ' '
		}
	}
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
