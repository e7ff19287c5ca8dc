package fastproxy

import (
	"bufio"
	"bytes"
	"errors"
	"time"

	"github.com/valyala/fasthttp"
)

// maxInterim bounds the interim responses before a final one.
const maxInterim = 32

// errRetired: the endpoint gave up the unused connection with a 408 that
// answers nobody.
var errRetired = errors.New("fastproxy: endpoint gave up the connection")

// bodyFraming is how the end of a response's body is told.
type bodyFraming uint8

const (
	bodyNone       bodyFraming = iota // there is no body
	bodyLength                        // by Content-Length
	bodyChunked                       // by the last chunk
	bodyUntilClose                    // by the end of the connection
	bodyTunnel                        // 101: the connection now belongs to another protocol
)

// responseHead reads a response's head into fields and keeps what it says about
// the connection and the body. It is strict: what two parsers may take
// differently is refused.
type responseHead struct {
	fields *fasthttp.ResponseHeader // gets status and fields; without a default Content-Type
	toHead bool                     // it answers a HEAD request
	asked  []byte                   // the protocol that the request asked to upgrade to; empty: none

	status  int
	framing bodyFraming
	length  int64 // -1: unknown
	// keepAlive: the endpoint may use the connection again, keepAliveFor this
	// long (0: it does not say).
	keepAlive    bool
	keepAliveFor time.Duration

	http10, upgraded       bool
	sawLength, sawEncoding bool
	closes, keeps          bool
}

// readFinalHead reads heads up to the final one, which stays in resp; interim
// ones go to x.
func (l *leg) readFinalHead(resp *fasthttp.ResponseHeader, x informer) error {
	u := l.conn
	for range maxInterim {
		block, err := u.headBlock()
		if err != nil {
			return err
		}
		if err = l.head.parse(block); err != nil {
			return err
		}
		_, _ = u.br.Discard(len(block)) // all of it is buffered
		switch s := l.head.status; {
		case s == fasthttp.StatusRequestTimeout && u.reused && !l.head.keepAlive &&
			l.upload.repeatable() && monotonic()-l.sent <= staleWindow:
			return errRetired
		case s >= 200 || s == fasthttp.StatusSwitchingProtocols:
			return nil
		case s != fasthttp.StatusContinue && x != nil:
			x.inform(resp)
		}
	}
	return errBadResponse
}

// headBlock waits until a whole head is buffered and returns it, its empty line
// included, without consuming it. It is valid until the next read.
func (u *upstreamConn) headBlock() ([]byte, error) {
	searched := 0
	for {
		if _, err := u.br.Peek(searched + 1); err != nil {
			if err != bufio.ErrBufferFull || !u.growReader() {
				return nil, headError(err)
			}
			continue
		}
		b, _ := u.br.Peek(u.br.Buffered())
		from := max(searched-3, 0)
		if i := bytes.Index(b[from:], crlfcrlf); i >= 0 {
			return b[:from+i+4], nil
		}
		if bareLineFeed(b) {
			return nil, errBadResponse
		}
		searched = len(b)
	}
}

var crlfcrlf = []byte("\r\n\r\n")

func headError(err error) error {
	if err == bufio.ErrBufferFull {
		return errBadResponse
	}
	return err
}

// bareLineFeed tells whether a line of b ends without CR.
func bareLineFeed(b []byte) bool {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return false
		}
		if i == 0 || b[at+i-1] != '\r' {
			return true
		}
		at += i + 1
	}
}

// growReader replaces the full buffer of br by one of maxResponseHead; false:
// it has that already.
func (u *upstreamConn) growReader() bool {
	if u.br.Size() >= maxResponseHead {
		return false
	}
	b, _ := u.br.Peek(u.br.Buffered())
	u.unread = append([]byte(nil), b...)
	u.br = bufio.NewReaderSize(u, maxResponseHead)
	return true
}

// parse reads a head block; errBadResponse where it is malformed or ambiguous.
func (r *responseHead) parse(b []byte) error {
	*r = responseHead{fields: r.fields, toHead: r.toHead, asked: r.asked, length: -1}
	r.fields.Reset()
	r.fields.SetNoDefaultContentType(true)
	line, b := headLine(b)
	if !r.parseStatus(line) {
		return errBadResponse
	}
	for {
		line, b = headLine(b)
		if line == nil {
			return errBadResponse
		}
		if len(line) == 0 {
			break
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || !isToken(line[:colon]) {
			return errBadResponse
		}
		name, value := line[:colon], trimOWS(line[colon+1:])
		if !fieldValueOK(value) || !r.field(name, value) {
			return errBadResponse
		}
		receiveResponseField(r.fields, name, value)
	}
	return r.conclude()
}

// headLine cuts the first line off b, without its CRLF; nil: it ends otherwise.
func headLine(b []byte) (line, rest []byte) {
	i := bytes.IndexByte(b, '\n')
	if i < 1 || b[i-1] != '\r' {
		return nil, nil
	}
	return b[:i-1], b[i+1:]
}

// parseStatus reads "HTTP/1.1 200 OK"; the reason may be absent.
func (r *responseHead) parseStatus(line []byte) bool {
	const prefix = "HTTP/1.1 200"
	if len(line) < len(prefix) || string(line[:7]) != "HTTP/1." || line[8] != ' ' {
		return false
	}
	if len(line) > len(prefix) && line[len(prefix)] != ' ' {
		return false
	}
	switch line[7] {
	case '0':
		r.http10 = true
	case '1':
	default:
		return false
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return false
		}
		r.status = r.status*10 + int(c-'0')
	}
	r.fields.SetStatusCode(r.status)
	r.fields.SetStatusMessage(line[min(len(line), len(prefix)+1):])
	return r.status >= 100 && r.status <= 599
}

// field takes note of one field; false: it is malformed or ambiguous.
func (r *responseHead) field(name, value []byte) bool {
	switch len(name) {
	case len("Upgrade"):
		if len(r.asked) > 0 && equalFold(name, "upgrade") {
			r.upgraded = r.upgraded || bytes.EqualFold(value, r.asked)
		}
	case len("Connection"):
		if equalFold(name, "connection") {
			r.connection(value)
		} else if equalFold(name, "keep-alive") {
			r.keepAliveFor = keepAliveTimeout(value)
		}
	case len("Content-Length"):
		if equalFold(name, "content-length") {
			if r.sawLength {
				return false
			}
			r.sawLength = true
			r.length = parseLength(value)
			return r.length >= 0
		}
	case len("Transfer-Encoding"):
		if equalFold(name, "transfer-encoding") {
			if r.sawEncoding || !equalFold(value, "chunked") {
				return false
			}
			r.sawEncoding = true
		}
	}
	return true
}

// connection reads the tokens of a Connection field.
func (r *responseHead) connection(value []byte) {
	for len(value) > 0 {
		var token []byte
		token, value, _ = bytes.Cut(value, []byte{','})
		token = trimOWS(token)
		if equalFold(token, "close") {
			r.closes = true
		} else if equalFold(token, "keep-alive") {
			r.keeps = true
		}
	}
}

// conclude decides the framing from what the fields said.
func (r *responseHead) conclude() error {
	if r.sawEncoding && (r.sawLength || r.http10) {
		return errBadResponse
	}
	r.keepAlive = !r.closes && (!r.http10 || r.keeps)
	switch {
	case r.status == fasthttp.StatusSwitchingProtocols:
		if !r.upgraded {
			return errBadResponse
		}
		r.framing, r.length, r.keepAlive = bodyTunnel, -1, false
	case r.toHead || r.status < 200 || r.status == fasthttp.StatusNoContent || r.status == fasthttp.StatusNotModified:
		r.framing, r.length = bodyNone, 0
	case r.sawEncoding:
		r.framing, r.length = bodyChunked, -1
	case r.sawLength && r.length == 0:
		r.framing = bodyNone
	case r.sawLength:
		r.framing = bodyLength
	default:
		r.framing, r.length, r.keepAlive = bodyUntilClose, -1, false
	}
	return nil
}

// parseLength reads a decimal number of at most 18 digits; -1: it is none.
func parseLength(value []byte) int64 {
	if len(value) == 0 || len(value) > 18 {
		return -1
	}
	n := int64(0)
	for _, c := range value {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// keepAliveTimeout reads the seconds of "timeout=5, max=100"; 0: it says none.
func keepAliveTimeout(value []byte) time.Duration {
	for len(value) > 0 {
		var item []byte
		item, value, _ = bytes.Cut(value, []byte{','})
		item = trimOWS(item)
		const name = "timeout="
		if len(item) <= len(name) || !equalFold(item[:len(name)], name) {
			continue
		}
		if n := parseLength(item[len(name):]); n > 0 && n < 1<<20 {
			return time.Duration(n) * time.Second
		}
	}
	return 0
}
