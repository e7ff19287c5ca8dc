package fastproxy

import "bytes"

// headScan finds the end of a header block in bytes that arrive piece by piece.
// It looks at each byte once and sees to it that every line ends in CRLF.
type headScan struct {
	// at is where the next search begins, line where the current line begins,
	// both relative to the block's first byte.
	at, line int
	// lines counts the complete lines of the block.
	lines int
}

// next searches block, which holds the bytes so far, and returns the length of
// the whole block up to and with its blank line; 0: more bytes are needed.
// Empty lines in front of the request line are skipped (RFC 9112 2.2): skip is
// their length, and the caller starts again behind them.
func (s *headScan) next(block []byte) (length, skip int, r *refusal) {
	for {
		i := bytes.IndexByte(block[s.at:], '\n')
		if i < 0 {
			s.at = len(block)
			return 0, 0, nil
		}
		i += s.at
		if i == s.line || block[i-1] != '\r' {
			return 0, 0, &refuseBareLF
		}
		empty := i == s.line+1
		s.at, s.line = i+1, i+1
		switch {
		case !empty:
			s.lines++
		case s.lines == 0:
			*s = headScan{}
			return 0, i + 1, nil
		default:
			return i + 1, 0, nil
		}
	}
}
