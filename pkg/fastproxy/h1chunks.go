package fastproxy

import "bytes"

// bodyChunks takes the framing of a client's chunked body apart (RFC 9112
// 7.1), strictly: every line ends in CRLF, sizes are 1 to 15 hex digits with
// nothing around them, extensions hold no control bytes. It sees buffers, reads
// nothing itself, and allocates nothing.
type bodyChunks struct {
	where bodyChunksAt
	// excess counts the framing bytes that content does not outweigh, so that
	// extensions and one-byte chunks cannot keep a connection busy for nothing.
	excess  int64
	trailer int // bytes of trailer fields so far
}

type bodyChunksAt uint8

const (
	atSize bodyChunksAt = iota
	inData
	atDataEnd
	atTrailer
	atEnd
)

// chunkState is what comes next.
type chunkState uint8

const (
	chunkMore chunkState = iota // more bytes are needed
	chunkData                   // size bytes of content follow
	chunkEnd                    // the body has ended
)

const (
	maxChunkLine    = 4 << 10  // one chunk-size line with its extensions
	maxChunkExcess  = 16 << 10 // see bodyChunks.excess
	maxTrailerBytes = 8 << 10
	maxChunkDigits  = 15
)

// next consumes framing at the beginning of b. It stops in front of content,
// which the caller takes and then reports by dataRead.
func (r *bodyChunks) next(b []byte) (consumed int, size int64, state chunkState, err error) {
	for {
		rest := b[consumed:]
		switch r.where {
		case atDataEnd:
			if len(rest) < 2 {
				if len(rest) == 1 && rest[0] != '\r' {
					return consumed, 0, chunkMore, errBadBody
				}
				return consumed, 0, chunkMore, nil
			}
			if rest[0] != '\r' || rest[1] != '\n' {
				return consumed, 0, chunkMore, errBadBody
			}
			consumed += 2
			r.where = atSize
		case atSize:
			line, ok := cutBodyLine(rest, maxChunkLine)
			if line == nil {
				return consumed, 0, chunkMore, badUnless(ok)
			}
			if size, ok = r.sizeLine(line); !ok {
				return consumed, 0, chunkMore, errBadBody
			}
			consumed += len(line) + 2
			if size > 0 {
				r.where = inData
				return consumed, size, chunkData, nil
			}
			r.where = atTrailer
		case atTrailer:
			line, ok := cutBodyLine(rest, maxTrailerBytes-r.trailer)
			if line == nil {
				return consumed, 0, chunkMore, badUnless(ok)
			}
			consumed += len(line) + 2
			if len(line) == 0 {
				r.where = atEnd
				return consumed, 0, chunkEnd, nil
			}
			if r.trailer += len(line) + 2; !isFieldLine(line) {
				return consumed, 0, chunkMore, errBadBody
			}
		default: // inData: the caller is late with dataRead; atEnd: nothing comes
			return consumed, 0, chunkEnd, nil
		}
	}
}

// dataRead says that the caller has taken the content of the chunk.
func (r *bodyChunks) dataRead() { r.where = atDataEnd }

// cutBodyLine returns the first line of b without its CRLF; nil where it is not
// complete, and then ok says whether it still can become one of at most limit
// bytes.
func cutBodyLine(b []byte, limit int) (line []byte, ok bool) {
	i := bytes.IndexByte(b, '\n')
	switch {
	case i < 0:
		return nil, len(b) < limit
	case i == 0 || b[i-1] != '\r' || i > limit:
		return nil, false
	}
	return b[: i-1 : i-1], true
}

func badUnless(ok bool) error {
	if ok {
		return nil
	}
	return errBadBody
}

// sizeLine reads "1*15HEXDIG [;extensions]".
func (r *bodyChunks) sizeLine(line []byte) (size int64, ok bool) {
	digits := 0
	for digits < len(line) && byteClasses[line[digits]]&hexByte != 0 {
		size = size<<4 | int64(unhex(line[digits]))
		if digits++; digits > maxChunkDigits {
			return 0, false
		}
	}
	ext := line[digits:]
	if digits == 0 || len(ext) > 0 && ext[0] != ';' || !fieldValueOK(ext) {
		return 0, false
	}
	// A chunk of ordinary make has about 6 bytes of framing.
	r.excess = max(0, r.excess+int64(len(line)+4)-16-2*min(size, 1<<20))
	return size, r.excess <= maxChunkExcess
}

// isFieldLine says whether line is a field line: a token, a colon, a value.
func isFieldLine(line []byte) bool {
	i := bytes.IndexByte(line, ':')
	return i > 0 && isToken(line[:i]) && fieldValueOK(line[i+1:])
}
