package fastproxy

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// gate is the strict check of an HTTP/1.x header block, and what it found. It is
// the only reader of the block: it records how the body is framed and fills the
// header with all fields but those that frame the message (Content-Length,
// Transfer-Encoding, Expect, Trailer). So no two parsers can disagree about where
// a message ends or whom it is for.
//
// The slices share the block's memory. One gate serves a connection; it
// allocates nothing once the header's memory has grown to what it needs.
type gate struct {
	method, rawTarget []byte
	target            requestTarget
	upgrade           []byte // the one protocol that may be switched to, nil none

	// bodyLen is the declared length; -1: chunked; 0: no body.
	bodyLen int64
	http10  bool
	// expect: the client waits for 100 Continue before it sends its body.
	expect bool
	// close: the client asked for the connection to end with this exchange;
	// keepAlive: it asked (HTTP/1.0) for the contrary.
	close, keepAlive bool

	header       *fasthttp.RequestHeader // what examine fills
	host         []byte
	hostSeen     bool
	lengthSeen   bool
	teSeen       bool
	upgradeAsked bool // Connection: upgrade
	upgradeSeen  int
	typeSeen     bool
}

// maxFields bounds the fields of one message.
const maxFields = 256

// examine checks head, one header block from its request line to its blank
// line, both included, in which every line ends in CRLF (headScan saw to that),
// and fills h, which is empty, with its method and fields. scratch is memory for
// what has to be built. It returns why the message is refused, nil if it is not.
func (g *gate) examine(head []byte, h *fasthttp.RequestHeader, scratch *[]byte) *refusal {
	*g = gate{header: h}
	r := g.read(head, scratch)
	g.header = nil
	return r
}

func (g *gate) read(head []byte, scratch *[]byte) *refusal {
	end := bytes.IndexByte(head, '\n') + 1
	if r := g.requestLine(head[:end-2]); r != nil {
		return r
	}
	g.header.SetMethodBytes(g.method)
	for n := 0; ; n++ {
		start := end
		if head[start] == '\r' && start+2 == len(head) {
			break
		}
		if n == maxFields {
			return &refuseFieldCount
		}
		end += bytes.IndexByte(head[start:], '\n') + 1
		if r := g.field(head[start : end-2]); r != nil {
			return r
		}
	}
	return g.whole(scratch)
}

// requestLine checks "METHOD SP target SP HTTP/1.x".
func (g *gate) requestLine(line []byte) *refusal {
	i := bytes.IndexByte(line, ' ')
	if i < 0 || !isToken(line[:i]) {
		return &refuseRequestLine
	}
	g.method = line[:i]
	rest := line[i+1:]
	i = bytes.LastIndexByte(rest, ' ')
	if i <= 0 {
		return &refuseRequestLine
	}
	g.rawTarget = rest[:i]
	switch version := rest[i+1:]; {
	case string(version) == "HTTP/1.1":
	case string(version) == "HTTP/1.0":
		g.http10 = true
	case len(version) == 8 && string(version[:5]) == "HTTP/" && version[6] == '.' &&
		byteClasses[version[5]]&byteClasses[version[7]]&digitByte != 0:
		return &refuseVersion
	default:
		return &refuseRequestLine
	}
	if string(g.method) == "CONNECT" {
		return &refuseConnect
	}
	return nil
}

// field checks one field line without its CRLF and takes what it says.
func (g *gate) field(line []byte) *refusal {
	if len(line) > 0 && (line[0] == ' ' || line[0] == '\t') {
		return &refuseFold
	}
	i := bytes.IndexByte(line, ':')
	if i < 0 || !isToken(line[:i]) {
		return &refuseFieldName
	}
	name, value := line[:i], trimOWS(line[i+1:])
	if !fieldValueOK(value) {
		return &refuseFieldValue
	}
	switch len(name) {
	case len("host"):
		if equalFold(name, "host") {
			if g.hostSeen {
				return &refuseNoHost
			}
			g.host, g.hostSeen = value, true
			g.header.SetHostBytes(value)
			return nil
		}
	case len("expect"):
		if equalFold(name, "expect") {
			return g.expectation(value)
		}
	case len("upgrade"): // and trailer
		if equalFold(name, "upgrade") {
			g.upgrade = value
			g.upgradeSeen++
		} else if equalFold(name, "trailer") {
			return nil
		}
	case len("connection"): // and user-agent
		if equalFold(name, "connection") {
			g.connection(value)
		}
	case len("content-type"):
		if equalFold(name, "content-type") {
			if g.typeSeen {
				return &refuseTypes
			}
			g.typeSeen = true
		}
	case len("content-length"):
		if equalFold(name, "content-length") {
			return g.contentLength(value)
		}
	case len("transfer-encoding"):
		if equalFold(name, "transfer-encoding") {
			return g.transferEncoding(value)
		}
	}
	receiveRequestField(g.header, name, value)
	return nil
}

func (g *gate) expectation(value []byte) *refusal {
	switch {
	case g.http10: // RFC 9110 10.1.1: ignored in HTTP/1.0
	case g.expect || !equalFold(value, "100-continue"):
		return &refuseExpect
	default:
		g.expect = true
	}
	return nil
}

func (g *gate) contentLength(value []byte) *refusal {
	// 18 digits are below 2^63 whatever they are.
	if g.lengthSeen || len(value) == 0 || len(value) > 18 || !all(value, digitByte) {
		return &refuseLength
	}
	g.lengthSeen = true
	for _, c := range value {
		g.bodyLen = g.bodyLen*10 + int64(c-'0')
	}
	return nil
}

func (g *gate) transferEncoding(value []byte) *refusal {
	if g.teSeen || g.http10 || len(value) == 0 {
		return &refuseTE
	}
	if !equalFold(value, "chunked") {
		return &refuseCoding
	}
	g.teSeen = true
	return nil
}

// connection notes what the options of a Connection field ask for. Options
// that name other fields are the core's business.
func (g *gate) connection(value []byte) {
	for len(value) > 0 {
		option := value
		if i := bytes.IndexByte(value, ','); i >= 0 {
			option, value = value[:i], value[i+1:]
		} else {
			value = nil
		}
		switch option = trimOWS(option); {
		case equalFold(option, "close"):
			g.close = true
		case equalFold(option, "keep-alive"):
			g.keepAlive = true
		case equalFold(option, "upgrade"):
			g.upgradeAsked = true
		}
	}
}

// whole checks what only the whole block tells.
func (g *gate) whole(scratch *[]byte) *refusal {
	if !g.http10 && (!g.hostSeen || len(g.host) == 0) {
		return &refuseNoHost
	}
	if _, ok := splitAuthority(g.host); !ok {
		return &refuseHost
	}
	if g.teSeen {
		if g.lengthSeen {
			return &refuseLengthTE
		}
		g.bodyLen = -1
	}
	if g.upgradeAsked && g.close {
		return &refuseUpgrade
	}
	if r := g.target.parse(g.method, g.rawTarget, g.host, scratch); r != nil {
		return r
	}
	if g.bodyLen == 0 {
		g.expect = false
	}
	if g.http10 && !g.keepAlive {
		g.close = true
	}
	if !g.mayUpgrade() {
		g.upgrade = nil
	}
	return nil
}

// mayUpgrade says whether the Upgrade field counts: HTTP/1.1, nominated by
// Connection, one protocol in one field, no body, and not h2c, which HTTP/2 has
// given up. A server may ignore the rest (RFC 9110 7.8), and so do we.
func (g *gate) mayUpgrade() bool {
	return g.upgradeSeen == 1 && g.upgradeAsked && !g.http10 && g.bodyLen == 0 &&
		!equalFold(g.upgrade, "h2c") && isProtocol(g.upgrade)
}

// isProtocol says whether b is one protocol name with an optional version.
func isProtocol(b []byte) bool {
	if i := bytes.IndexByte(b, '/'); i >= 0 {
		return isToken(b[:i]) && isToken(b[i+1:])
	}
	return isToken(b)
}
