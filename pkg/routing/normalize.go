package routing

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode"
	"unicode/utf8"
)

// normalizer collects the normalised form of texts: each run of white space one
// space, none at either end, letters lower-cased by simple folding, cut to
// limit bytes at a rune boundary. It looks at no more text than that takes.
type normalizer struct {
	// dst holds the text so far. All its spaces stand for white space; one at
	// its end counts only once something follows.
	dst   []byte
	limit int
	full  bool // the next character did not fit
}

// reset starts a text of at most limit bytes and keeps the memory.
func (n *normalizer) reset(limit int) {
	*n = normalizer{dst: n.dst[:0], limit: limit}
}

// add appends t's text and returns whether more fits.
func (n *normalizer) add(t rawText) bool {
	for len(t) > 0 && !n.full {
		if c := t[0]; c < utf8.RuneSelf && (c != '\\' || t[1] != 'u') {
			read := n.addASCII(t)
			t = t[read:]
			if read > 0 || n.full {
				continue
			}
		}
		r, size := t.nextChar()
		n.addRune(r)
		t = t[size:]
	}
	return !n.full
}

// addBreak separates what follows from what came before.
func (n *normalizer) addBreak() {
	if len(n.dst) < n.limit && !n.spaced() {
		n.dst = append(n.dst, ' ')
	}
}

// text returns the normalised text; nothing is added to it after that.
func (n *normalizer) text() []byte {
	if !n.full && len(n.dst) > 0 && n.spaced() {
		n.dst = n.dst[:len(n.dst)-1]
	}
	return n.dst
}

// spaced reports whether white space would add nothing.
func (n *normalizer) spaced() bool {
	return len(n.dst) == 0 || n.dst[len(n.dst)-1] == ' '
}

// addASCII is add for the characters at the front of t that are ASCII, by
// themselves or by an escape of one letter; it returns how many bytes those
// are.
func (n *normalizer) addASCII(t rawText) int {
	at := len(n.dst)
	room := min(n.limit, at+len(t))
	dst := slices.Grow(n.dst, room-at)[:room]
	i := 0
	for i < len(t) {
		if len(t)-i >= 8 && room-at >= 8 {
			words := addWords(dst[at:], t[i:], at == 0 || dst[at-1] == ' ')
			if i, at = i+words, at+words; i == len(t) {
				break
			}
		}
		c, size := asciiFold[t[i]], 1
		if t[i] == '\\' {
			c, size = escapeFold[t[i+1]], 2
		}
		if c == 0 {
			break
		}
		if c == ' ' {
			if at > 0 && at < room && dst[at-1] != ' ' {
				dst[at] = c
				at++
			}
			for i += size; i < len(t) && t[i] == ' '; i++ {
			}
			continue
		}
		if at == room {
			n.full = true
			break
		}
		dst[at] = c
		i, at = i+size, at+1
	}
	n.dst = dst[:at]
	return i
}

// addWords is addASCII, eight bytes at a time, for what needs no more than
// another case: t's text goes to dst up to where it has an escape, a control
// character, anything beyond ASCII or white space behind other, or where fewer
// than eight bytes are left in one of them. spaced tells that white space would
// add nothing in front. It returns how many bytes that was.
func addWords(dst []byte, t rawText, spaced bool) int {
	space := uint64(0) // flags a space in the byte before
	if spaced {
		space = 0x80
	}
	n, last := 0, min(len(t), len(dst))-8
	for ; n <= last; n += 8 {
		x := binary.LittleEndian.Uint64(t[n : n+8 : n+8])
		low := x &^ msbs // so that no sum carries into the next byte
		printable := low + (0x80-' ')*lsbs
		unescaped := (low ^ '\\'*lsbs) + 0x7F*lsbs
		spaces := printable &^ (low + (0x80-' '-1)*lsbs) & msbs
		upper := (low + (0x80-'A')*lsbs) &^ (low + (0x80-'Z'-1)*lsbs) & msbs
		binary.LittleEndian.PutUint64(dst[n:n+8:n+8], x|upper>>2)
		stops := (^(printable & unescaped) | x | spaces&(spaces<<8|space)) & msbs
		if stops != 0 {
			return n + bits.TrailingZeros64(stops)>>3
		}
		space = spaces >> 56
	}
	return n
}

// lastSpace is the last character that is white space.
const lastSpace = '\u3000'

// addRune appends a character.
func (n *normalizer) addRune(r rune) {
	if r <= lastSpace && unicode.IsSpace(r) {
		n.addBreak()
		return
	}
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

// escapeFold is asciiFold for the byte behind a backslash.
var escapeFold = func() (table [256]byte) {
	for _, c := range `"\/bfnrt` {
		r, _ := rawText([]byte{'\\', byte(c)}).escape()
		table[c] = asciiFold[r]
	}
	table['\\'] = '\\'
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
