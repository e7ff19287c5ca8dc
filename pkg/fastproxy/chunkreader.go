package fastproxy

import "bytes"

const (
	// maxChunkLine bounds one chunk-size line, extensions included.
	maxChunkLine = 4 << 10
	// chunkOverhead is how many bytes beside the payload a body may have spent
	// at any time: this much, and for each chunk 16 bytes and twice its size.
	chunkOverhead = 16 << 10
	// maxTrailer bounds the trailer section.
	maxTrailer = 8 << 10
	// maxChunkDigits keeps a chunk size within 60 bits.
	maxChunkDigits = 15
)

type chunkState uint8

const (
	chunkSize      chunkState = iota // in the digits
	chunkSpace                       // blanks behind them
	chunkExtension                   // behind ";"
	chunkSizeLF                      // LF of the size line due
	chunkData
	chunkDataCR // CRLF behind the data due
	chunkDataLF
	chunkTrailer // in the trailer section, which holds the lines so far
	chunkDone
)

// chunkReader takes the framing off a chunked body that arrives in pieces. It
// is strict: CRLF line ends, sizes of hexadecimal digits alone (blanks behind
// them, which some servers pad with, are let pass), trailers of tokens and
// field values; and it bounds what a body may hold beside its payload. The zero
// value is ready; it is used again by reset.
type chunkReader struct {
	state   chunkState
	digits  int
	line    int   // bytes of the size line so far
	left    int64 // of the chunk
	excess  int64
	trailer []byte // the trailer section, CRLF line ends
}

func (c *chunkReader) reset() { *c = chunkReader{trailer: c.trailer[:0]} }

// done tells whether the body has ended; what follows belongs to nobody.
func (c *chunkReader) done() bool { return c.state == chunkDone }

// next reads b up to the end of the first contiguous piece of payload and
// returns it, a part of b, and how much of b it has used. It stops early only
// at the body's end. Error: errBadResponse, after which c is unusable.
func (c *chunkReader) next(b []byte) (piece []byte, used int, err error) {
	for used < len(b) {
		switch c.state {
		case chunkData:
			n := int(min(c.left, int64(len(b)-used)))
			piece = b[used : used+n]
			if c.left -= int64(n); c.left == 0 {
				c.state = chunkDataCR
			}
			return piece, used + n, nil
		case chunkTrailer:
			n, ok := c.readTrailer(b[used:])
			used += n
			if !ok {
				return nil, used, errBadResponse
			}
		case chunkDone:
			return nil, used, nil
		default:
			if !c.readByte(b[used]) {
				return nil, used, errBadResponse
			}
			used++
		}
	}
	return nil, used, nil
}

// readByte takes one byte of a size line or of the end of a chunk.
func (c *chunkReader) readByte(b byte) bool {
	switch c.state {
	case chunkSize:
		v := hexValue(b)
		if v < 0 {
			return c.digits > 0 && c.sizeEnd(b)
		}
		c.digits++
		c.left = c.left<<4 | int64(v)
		return c.digits <= maxChunkDigits && c.countLine()
	case chunkSpace:
		return c.sizeEnd(b)
	case chunkExtension:
		if b == '\r' {
			c.state = chunkSizeLF
			return true
		}
		return (b >= ' ' || b == '\t') && b != 0x7f && c.countLine()
	case chunkSizeLF:
		return b == '\n' && c.endLine()
	case chunkDataCR:
		c.state = chunkDataLF
		return b == '\r'
	case chunkDataLF:
		c.state = chunkSize
		return b == '\n'
	}
	return false
}

// sizeEnd takes a byte behind the digits.
func (c *chunkReader) sizeEnd(b byte) bool {
	switch b {
	case '\r':
		c.state = chunkSizeLF
	case ';':
		c.state = chunkExtension
	case ' ', '\t':
		c.state = chunkSpace
	default:
		return false
	}
	return c.countLine()
}

func (c *chunkReader) countLine() bool {
	c.line++
	return c.line <= maxChunkLine
}

// endLine begins the chunk that the size line announced.
func (c *chunkReader) endLine() bool {
	c.excess = max(c.excess+int64(c.line)+4-16-2*min(c.left, chunkOverhead), 0)
	c.line, c.digits = 0, 0
	c.state = chunkData
	if c.left == 0 {
		c.state = chunkTrailer
		c.trailer = c.trailer[:0]
	}
	return c.excess <= chunkOverhead
}

// readTrailer takes bytes of the trailer section up to its end.
func (c *chunkReader) readTrailer(b []byte) (used int, ok bool) {
	for used < len(b) {
		rest := b[used:]
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 {
			n = len(rest)
		}
		if len(c.trailer)+n > maxTrailer {
			return used, false
		}
		c.trailer = append(c.trailer, rest[:n]...)
		used += n
		if rest[n-1] != '\n' {
			return used, true
		}
		begin := bytes.LastIndexByte(c.trailer[:len(c.trailer)-1], '\n') + 1
		line := c.trailer[begin:]
		if len(line) < 2 || line[len(line)-2] != '\r' {
			return used, false
		}
		if line = line[:len(line)-2]; len(line) == 0 {
			c.trailer = c.trailer[:begin]
			c.state = chunkDone
			return used, true
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || !isToken(line[:colon]) || !fieldValueOK(line[colon+1:]) {
			return used, false
		}
	}
	return used, true
}

// trailers calls f for each trailer field that a hop may pass on, in order; the
// slices die with the body.
func (c *chunkReader) trailers(f func(name, value []byte)) {
	for b := c.trailer; len(b) > 0; {
		var line []byte
		line, b, _ = bytes.Cut(b, crlf)
		name, value, _ := bytes.Cut(line, colon)
		if !framesMessage(name) {
			f(name, trimOWS(value))
		}
	}
}

var (
	crlf  = []byte("\r\n")
	colon = []byte(":")
)

// framesMessage tells whether the field frames a message or belongs to one hop,
// and so may not come as a trailer.
func framesMessage(name []byte) bool {
	for _, n := range [...]string{
		"content-length", "transfer-encoding", "trailer", "te", "connection",
		"keep-alive", "proxy-connection", "upgrade", "host", "content-encoding",
		"content-type", "content-range",
	} {
		if equalFold(name, n) {
			return true
		}
	}
	return false
}

// hexValue is the value of a hexadecimal digit, -1 for another byte.
func hexValue(b byte) int {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0')
	case 'a' <= b && b <= 'f':
		return int(b-'a') + 10
	case 'A' <= b && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}
