package fastproxy

import "bytes"

const (
	// maxSizeLine bounds one chunk-size line, extensions included.
	maxSizeLine = 4000
	// chunkOverhead is how many bytes beside the payload a body may have spent
	// at any time: this much, and for each chunk 16 bytes and twice its size.
	chunkOverhead = 16 << 10
	// maxTrailerSection bounds the trailer section.
	maxTrailerSection = 8 << 10
	// maxSizeDigits keeps a chunk size within 60 bits.
	maxSizeDigits = 15
)

type decoderState uint8

const (
	inSize       decoderState = iota // in the digits
	inSizeBlanks                     // blanks behind them
	inExtension                      // behind ";"
	atSizeLF                         // LF of the size line due
	inPayload
	atDataCR // CRLF behind the data due
	atDataLF
	inTrailer // in the trailer section, which holds the lines so far
	bodyDone
)

// chunkDecoder takes the framing off a chunked body (RFC 9112 7.1) that arrives
// in pieces, a client's or an engine's. It is strict: CRLF line ends, sizes of at
// most 15 hexadecimal digits with nothing around them, extensions without control
// bytes, trailers of tokens and field values; and it bounds what a body may hold
// beside its payload. It reads nothing itself. The zero value is ready; it is
// used again by reset.
type chunkDecoder struct {
	// blanks lets blanks behind a size pass, with which some servers pad it.
	blanks  bool
	state   decoderState
	digits  int
	line    int   // bytes of the size line so far
	left    int64 // of the chunk
	excess  int64
	trailer []byte // the trailer section, CRLF line ends
}

func (c *chunkDecoder) reset() { *c = chunkDecoder{blanks: c.blanks, trailer: c.trailer[:0]} }

// done tells whether the body has ended; what follows belongs to nobody.
func (c *chunkDecoder) done() bool { return c.state == bodyDone }

// next reads b up to the end of the first contiguous piece of payload and
// returns it, a part of b, and how much of b it has used. It stops early only
// at the body's end. false: the body is malformed, and c unusable.
func (c *chunkDecoder) next(b []byte) (piece []byte, used int, ok bool) {
	used, ok = c.framing(b)
	n := min(c.payload(), int64(len(b)-used))
	if !ok || n == 0 {
		return nil, used, ok
	}
	c.taken(n)
	return b[used : used+int(n)], used + int(n), true
}

// framing reads b up to the next byte of payload, or the body's end, and returns
// how much of b that was; false as in next.
func (c *chunkDecoder) framing(b []byte) (used int, ok bool) {
	for used < len(b) && c.state != inPayload && c.state != bodyDone {
		n := 1
		if c.state == inTrailer {
			n, ok = c.readTrailer(b[used:])
		} else {
			ok = c.readByte(b[used])
		}
		used += n
		if !ok {
			return used, false
		}
	}
	return used, true
}

// payload is how much payload follows before the next framing.
func (c *chunkDecoder) payload() int64 {
	if c.state != inPayload {
		return 0
	}
	return c.left
}

// taken says that n bytes of the payload were read.
func (c *chunkDecoder) taken(n int64) {
	if c.left -= n; c.left == 0 {
		c.state = atDataCR
	}
}

// readByte takes one byte of a size line or of the end of a chunk.
func (c *chunkDecoder) readByte(b byte) bool {
	switch c.state {
	case inSize:
		if byteClasses[b]&hexByte == 0 {
			return c.digits > 0 && c.sizeEnd(b)
		}
		c.digits++
		c.left = c.left<<4 | int64(unhex(b))
		return c.digits <= maxSizeDigits && c.countLine()
	case inSizeBlanks:
		return c.sizeEnd(b)
	case inExtension:
		if b == '\r' {
			c.state = atSizeLF
			return true
		}
		return (b >= ' ' || b == '\t') && b != 0x7f && c.countLine()
	case atSizeLF:
		return b == '\n' && c.endLine()
	case atDataCR:
		c.state = atDataLF
		return b == '\r'
	case atDataLF:
		c.state = inSize
		return b == '\n'
	}
	return false
}

// sizeEnd takes a byte behind the digits.
func (c *chunkDecoder) sizeEnd(b byte) bool {
	switch {
	case b == '\r':
		c.state = atSizeLF
	case b == ';':
		c.state = inExtension
	case c.blanks && (b == ' ' || b == '\t'):
		c.state = inSizeBlanks
	default:
		return false
	}
	return c.countLine()
}

func (c *chunkDecoder) countLine() bool {
	c.line++
	return c.line <= maxSizeLine
}

// endLine begins the chunk that the size line announced.
func (c *chunkDecoder) endLine() bool {
	c.excess = max(c.excess+int64(c.line)+4-16-2*min(c.left, chunkOverhead), 0)
	c.line, c.digits = 0, 0
	c.state = inPayload
	if c.left == 0 {
		c.state = inTrailer
		c.trailer = c.trailer[:0]
	}
	return c.excess <= chunkOverhead
}

// readTrailer takes bytes of the trailer section up to its end.
func (c *chunkDecoder) readTrailer(b []byte) (used int, ok bool) {
	for used < len(b) {
		rest := b[used:]
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 {
			n = len(rest)
		}
		if len(c.trailer)+n > maxTrailerSection {
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
			c.state = bodyDone
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
func (c *chunkDecoder) trailers(f func(name, value []byte)) {
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
