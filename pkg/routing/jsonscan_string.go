package routing

import (
	"encoding/binary"
	"math/bits"
)

// Eight bytes are looked at as one word: lsbs has the lowest bit of each byte
// set, msbs the highest.
const (
	lsbs = 0x0101010101010101
	msbs = 0x8080808080808080
)

// stringStops flags the bytes of x that end a plain run inside a JSON string: a
// quote, a backslash, a control character, anything beyond ASCII. The lowest
// flag is exact; above it a borrow may raise false ones. Flipping a bit puts the
// quote right above the control characters.
func stringStops(x uint64) uint64 {
	const flip = '"' ^ ' '
	return (((x ^ flip*lsbs) - (' '+1)*lsbs) | ((x ^ '\\'*lsbs) - lsbs) | x) & msbs
}

// str reads a string from behind its opening quote to behind its closing one.
func (s *jsonScanner) str(i int) int {
	b := s.b
	for {
		for len(b)-i >= 16 {
			w := b[i : i+16 : i+16]
			stops := stringStops(binary.LittleEndian.Uint64(w))
			if stops == 0 {
				i += 8
				if stops = stringStops(binary.LittleEndian.Uint64(w[8:])); stops == 0 {
					i += 8
					continue
				}
			}
			i += bits.TrailingZeros64(stops) >> 3
			if b[i] != '\\' {
				break
			}
			if i = s.escape(i); i < 0 {
				return -1
			}
			i = s.escapedText(i)
		}
		if i >= len(b) {
			return -1
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			i = s.escape(i)
		case c < ' ':
			return -1
		case c < 0x80:
			i++
		default:
			i = s.beyondASCII(i)
		}
		if i < 0 {
			return -1
		}
	}
}

// escapedText is str for text that has escapes: it steps over them sixteen bytes
// at a time, without a branch that depends on where they are. It returns where
// something else is to be done, or where fewer bytes are left.
func (s *jsonScanner) escapedText(i int) int {
	b := s.b
	for len(b)-i > 16 {
		w := b[i : i+16 : i+16]
		stops, backslashes := escapedStops(binary.LittleEndian.Uint64(w), 0)
		stops2, backslashes2 := escapedStops(binary.LittleEndian.Uint64(w[8:]), backslashes)
		if stops|stops2 != 0 {
			if stops == 0 {
				i, stops = i+8, stops2
			}
			i += bits.TrailingZeros64(stops) >> 3
			if b[i] != '\\' {
				return i
			}
			i++ // the second one of two
			continue
		}
		i += 16
		if backslashes2>>63 != 0 {
			if b[i] < ' ' {
				return i
			}
			i += int(1 - b[i]>>7)
		}
	}
	return i
}

// escapedStops is stringStops for text with escapes: backslashes and what they
// escape are no stops, but the second one of two is. before has the flags of
// the backslashes in the eight bytes before x.
func escapedStops(x, before uint64) (stops, backslashes uint64) {
	low := x &^ msbs // so that no sum carries into the next byte
	backslashes = ^((low ^ '\\'*lsbs) + 0x7F*lsbs) & msbs
	escaped := backslashes<<8 | before>>56
	noQuotes := (low ^ '"'*lsbs) + 0x7F*lsbs
	printable := low + (0x80-' ')*lsbs
	return (^(printable & (noQuotes | escaped)) | x | backslashes&escaped) & msbs, backslashes
}

// escape skips the backslash at i and, unread, the character behind it; one
// beyond ASCII is left to be checked as such.
func (s *jsonScanner) escape(i int) int {
	b := s.b
	if i+1 >= len(b) || b[i+1] < ' ' {
		return -1
	}
	return i + 1 + int(1-b[i+1]>>7)
}

// beyondASCII reads a run of characters beyond ASCII and checks that they are
// well-formed UTF-8 (Unicode 16, table 3-7), encoded surrogates let through.
func (s *jsonScanner) beyondASCII(i int) int {
	b := s.b
	for i < len(b) && b[i] >= 0x80 {
		var w uint32 // the next four bytes, the first one lowest
		if len(b)-i >= 4 {
			w = binary.LittleEndian.Uint32(b[i:])
		} else {
			for j, c := range b[i:] {
				w |= uint32(c) << (8 * j)
			}
		}
		switch {
		case w&0xC0C0F0 == 0x8080E0:
			if w&0x20FF == 0x00E0 { // longer than needed
				return -1
			}
			if w&0x20FF == 0x20ED {
				s.surrogates = true
			}
			i += 3
		case w&0xC0E0 == 0x80C0:
			if w&0x1E == 0 { // longer than needed
				return -1
			}
			i += 2
		case w&0xC0C0C0F8 == 0x808080F0:
			// U+10000 to U+10FFFF, by the five bits that tell
			if top := w&0x07<<2 | w>>12&0x03; top == 0 || top > 0x10 {
				return -1
			}
			i += 4
		default:
			return -1
		}
	}
	return i
}
