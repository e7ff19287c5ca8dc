package routing

import "encoding/binary"

// maxNesting is the deepest nesting of arrays and objects that a body may have
// to take part, the outermost object counted: encoding/json's own limit, well
// above what the engines' parsers follow. Nesting takes one bit a level, no
// stack.
const maxNesting = 10000

// jsonScanner walks a JSON text once, byte positions in, byte positions out,
// and validates all it walks over. Every method returns the position behind
// what it read, or -1 when the text is not valid there.
//
// Valid is what the engines' own parser (Python's json.loads on bytes) takes:
// RFC 8259, and NaN, Infinity, -Infinity as numbers; UTF-8 must be well-formed,
// except that an encoded surrogate half passes (it reads as U+FFFD). Unlike
// there an escape that does not exist passes too (it reads as U+FFFD).
type jsonScanner struct {
	b []byte
	// surrogates: some string holds an encoded surrogate half, so that not all
	// bytes can be taken as they are.
	surrogates bool
	// objects has the bit of a nesting level set if that level is an object.
	// Bits above the current level are garbage.
	objects [maxNesting/64 + 1]uint64
}

func (s *jsonScanner) reset(b []byte) {
	s.b, s.surrogates = b, false
}

// value reads the value that starts at i inside depth open containers.
func (s *jsonScanner) value(i, depth int) int {
	b, outer := s.b, depth
	object := false // whether the innermost container that value opened is one
	for {
		if uint(i) >= uint(len(b)) {
			return -1
		}
		switch c := b[i]; c {
		case '"':
			i = s.str(i + 1)
		case '{', '[':
			if depth == maxNesting {
				return -1
			}
			i = skipSpace(b, i+1)
			if i < len(b) && b[i] == c+2 { // '}' and ']' follow two behind their openers
				i++
				break
			}
			depth++
			object = c == '{'
			s.push(depth, object)
			if object {
				i = s.memberName(i)
			}
			if i < 0 {
				return -1
			}
			continue
		default:
			i = s.scalar(i)
		}
		if i < 0 {
			return -1
		}
		for depth > outer {
			i = skipSpace(b, i)
			if i >= len(b) {
				return -1
			}
			c := b[i]
			if c == ',' {
				i = skipSpace(b, i+1)
				if object {
					i = s.memberName(i)
				}
				break
			}
			if object && c != '}' || !object && c != ']' {
				return -1
			}
			i++
			depth--
			object = s.isObject(depth)
		}
		if depth == outer || i < 0 {
			return i
		}
	}
}

func (s *jsonScanner) push(depth int, object bool) {
	bit := uint64(1) << (depth & 63)
	if object {
		s.objects[depth>>6] |= bit
	} else {
		s.objects[depth>>6] &^= bit
	}
}

func (s *jsonScanner) isObject(depth int) bool {
	return s.objects[depth>>6]>>(depth&63)&1 != 0
}

// memberName reads a member's name and the colon: i at the quote, the result
// at the value.
func (s *jsonScanner) memberName(i int) int {
	_, i = s.member(i)
	return i
}

// member is memberName that tells the end of the name's text too; the text
// starts at i+1.
func (s *jsonScanner) member(i int) (nameEnd, value int) {
	b := s.b
	if i >= len(b) || b[i] != '"' {
		return 0, -1
	}
	i = s.str(i + 1)
	if i < 0 {
		return 0, -1
	}
	nameEnd = i - 1
	if i < len(b) && b[i] != ':' {
		i = skipSpace(b, i)
	}
	if i >= len(b) || b[i] != ':' {
		return 0, -1
	}
	return nameEnd, skipSpace(b, i+1)
}

// first enters the container whose opener is at i and returns the position of
// its first member or element; more is false if it is empty, and the position
// then the one behind it.
func (s *jsonScanner) first(i int) (next int, more bool) {
	b := s.b
	closer := b[i] + 2
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == closer {
		return i + 1, false
	}
	return i, true
}

// next moves from the end of a member or element to the next one; more is false
// when the container closed there.
func (s *jsonScanner) next(i int, closer byte) (next int, more bool) {
	b := s.b
	i = skipSpace(b, i)
	if i >= len(b) {
		return -1, false
	}
	switch b[i] {
	case ',':
		return skipSpace(b, i+1), true
	case closer:
		return i + 1, false
	}
	return -1, false
}

// scalar reads a number or one of the literals.
func (s *jsonScanner) scalar(i int) int {
	b := s.b[i:]
	switch b[0] {
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	case 'N':
		return s.literal(i, "NaN")
	case 'I':
		return s.literal(i, "Infinity")
	case '-':
		if len(b) > 1 && b[1] == 'I' {
			return s.literal(i, "-Infinity")
		}
	}
	return s.number(i)
}

func (s *jsonScanner) literal(i int, word string) int {
	if len(s.b)-i < len(word) || string(s.b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// number reads a number in RFC 8259's grammar.
func (s *jsonScanner) number(i int) int {
	b := s.b
	if b[i] == '-' {
		i++
	}
	if i >= len(b) {
		return -1
	}
	if b[i] == '0' {
		i++
	} else if i = s.digits(i); i < 0 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return s.digits(i)
	}
	return i
}

// digits reads one or more decimal digits.
func (s *jsonScanner) digits(i int) int {
	b, start := s.b, i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// skipSpace returns the position of the first byte from i on that is no JSON
// white space. It is small enough to be inlined where there is none.
func skipSpace(b []byte, i int) int {
	if i < len(b) && b[i] <= ' ' {
		return skipSpaceRun(b, i)
	}
	return i
}

func skipSpaceRun(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ' ':
			i++
			for len(b)-i >= 8 && binary.LittleEndian.Uint64(b[i:]) == ' '*lsbs {
				i += 8
			}
		case '\n', '\r', '\t':
			i++
		default:
			return i
		}
	}
	return i
}
