package hostile

import (
	"fmt"
	"strings"
)

// Request is one raw input and what becomes of it: refused with Status, or
// forwarded as exactly the request named.
type Request struct {
	Name, Raw          string
	Status             int
	Target, Host, Body string // where Status is 200
}

// The parts that many of them have.
const (
	Smuggled = "GET /smuggled HTTP/1.1\r\nHost: evil\r\n\r\n"
	PostHead = "POST /p HTTP/1.1\r\nHost: a.test\r\n"
	GetHead  = "GET /p HTTP/1.1\r\nHost: a.test\r\n"
)

// Requests are what an HTTP library lets through, or only answers by itself, and
// a proxy must not: whatever two parsers could read differently; and beside it
// what looks like that and is harmless.
var Requests = []Request{
	{Name: "two equal lengths", Raw: PostHead + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello" + Smuggled, Status: 400},
	{Name: "two lengths", Raw: PostHead + "Content-Length: 0\r\nContent-Length: 43\r\n\r\n" + Smuggled, Status: 400},
	{Name: "list of lengths", Raw: PostHead + "Content-Length: 2, 2\r\n\r\nok", Status: 400},
	{Name: "signed length", Raw: PostHead + "Content-Length: +2\r\n\r\nok", Status: 400},
	{Name: "length overflow", Raw: PostHead + "Content-Length: 18446744073709551616\r\n\r\n" + Smuggled, Status: 400},
	{Name: "empty length", Raw: PostHead + "Content-Length:\r\n\r\n" + Smuggled, Status: 400},
	{Name: "length and chunks", Raw: PostHead + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + Smuggled, Status: 400},
	{Name: "chunks and length", Raw: PostHead + "Transfer-Encoding: chunked\r\nContent-Length: 48\r\n\r\n0\r\n\r\n" + Smuggled, Status: 400},
	{Name: "identity", Raw: PostHead + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nok", Status: 501},
	{Name: "chunked, identity", Raw: PostHead + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", Status: 501},
	{Name: "gzip, chunked", Raw: PostHead + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", Status: 501},
	{Name: "two codings", Raw: PostHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Status: 400},
	{Name: "coding, space before the colon", Raw: PostHead + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + Smuggled, Status: 400},
	{Name: "coding after VT", Raw: PostHead + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + Smuggled, Status: 400},
	{Name: "coding in a name with a space", Raw: PostHead + "Transfer-Encoding x: chunked\r\nContent-Length: 0\r\n\r\n" + Smuggled, Status: 400},
	{Name: "coding folded", Raw: PostHead + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + Smuggled, Status: 400},
	{Name: "coding in HTTP/1.0", Raw: "POST /p HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + Smuggled, Status: 400},
	{Name: "negative length", Raw: PostHead + "Content-Length: -1\r\n\r\n" + Smuggled, Status: 400},
	{Name: "length in C", Raw: PostHead + "Content-Length: 0x2\r\n\r\nok", Status: 400},
	{Name: "length in two words", Raw: PostHead + "Content-Length: 0 43\r\n\r\n" + Smuggled, Status: 400},
	{Name: "length, space before the colon", Raw: PostHead + "Content-Length : 0\r\n\r\n" + Smuggled, Status: 400},
	{Name: "length after a tab in the line's front", Raw: PostHead + "\tContent-Length: 43\r\n\r\n" + Smuggled, Status: 400},
	{Name: "length in a name with NUL", Raw: PostHead + "Content-Length\x00: 43\r\n\r\n" + Smuggled, Status: 400},
	{Name: "coding in a name with 8 bit", Raw: PostHead + "Transfer-Encoding\xa0: chunked\r\n\r\n" + Smuggled, Status: 400},
	{Name: "coding in quotes", Raw: PostHead + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", Status: 501},
	{Name: "coding of another name", Raw: PostHead + "Transfer-Encoding: xchunked\r\n\r\n" + Smuggled, Status: 501},
	{Name: "empty coding", Raw: PostHead + "Transfer-Encoding:\r\n\r\n" + Smuggled, Status: 400},

	{Name: "bare LF after a field", Raw: "GET /p HTTP/1.1\r\nHost: a\nX: b\r\n\r\n" + Smuggled, Status: 400},
	{Name: "bare LF as the blank line", Raw: "GET /p HTTP/1.1\r\nHost: a\r\n\n" + Smuggled, Status: 400},
	{Name: "bare LF everywhere", Raw: strings.ReplaceAll(GetHead+"\r\n"+Smuggled, "\r\n", "\n") + "\r\n\r\n", Status: 400},
	{Name: "bare CR in a value", Raw: GetHead + "X: a\rTransfer-Encoding: chunked\r\n\r\n", Status: 400},
	{Name: "NUL in a value", Raw: GetHead + "X: a\x00b\r\n\r\n", Status: 400},
	{Name: "fold", Raw: GetHead + "X: a\r\n b\r\n\r\n", Status: 400},
	{Name: "name with a space", Raw: GetHead + "Foo Bar: x\r\n\r\n", Status: 400},
	{Name: "no colon", Raw: GetHead + "Foo\r\n\r\n", Status: 400},
	{Name: "no name", Raw: GetHead + ": x\r\n\r\n", Status: 400},
	{Name: "8 bit in a name", Raw: GetHead + "F\xe9: x\r\n\r\n", Status: 400},
	{Name: "field before the first", Raw: "GET /p HTTP/1.1\r\n X: a\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "CR CR LF", Raw: GetHead + "X: a\r\r\n\r\n" + Smuggled, Status: 400},

	{Name: "no Host", Raw: "GET /p HTTP/1.1\r\n\r\n", Status: 400},
	{Name: "empty Host", Raw: "GET /p HTTP/1.1\r\nHost:\r\n\r\n", Status: 400},
	{Name: "space in Host", Raw: "GET /p HTTP/1.1\r\nHost: a b\r\n\r\n", Status: 400},
	{Name: "list in Host", Raw: "GET /p HTTP/1.1\r\nHost: a,b\r\n\r\n", Status: 400},
	{Name: "two ports in Host", Raw: "GET /p HTTP/1.1\r\nHost: a:80:81\r\n\r\n", Status: 400},
	{Name: "percent sign in Host", Raw: "GET /p HTTP/1.1\r\nHost: a%00b\r\n\r\n", Status: 400},
	{Name: "absolute form without Host", Raw: "GET http://b.test/x HTTP/1.1\r\n\r\n", Status: 400},
	{Name: "absolute form beside a bad Host", Raw: "GET http://b.test/x HTTP/1.1\r\nHost: u@a\r\n\r\n", Status: 400},
	{Name: "absolute form of nobody", Raw: "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "absolute form of another scheme", Raw: "GET ftp://a/x HTTP/1.1\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "two Hosts", Raw: GetHead + "Host: b.test\r\n\r\n", Status: 400},
	{Name: "userinfo in Host", Raw: "GET /p HTTP/1.1\r\nHost: u:p@a\r\n\r\n", Status: 400},
	{Name: "quotes in Host", Raw: "GET /p HTTP/1.1\r\nHost: a<>\"'\r\n\r\n", Status: 400},
	{Name: "path in Host", Raw: "GET /p HTTP/1.1\r\nHost: a/b\r\n\r\n", Status: 400},
	{Name: "userinfo in the target", Raw: "GET http://u:p@a/x HTTP/1.1\r\nHost: a\r\n\r\n", Status: 400},

	{Name: "HTTP/1.2", Raw: "GET /p HTTP/1.2\r\nHost: a\r\n\r\n", Status: 505},
	{Name: "HTTP/2.0", Raw: "GET /p HTTP/2.0\r\nHost: a\r\n\r\n", Status: 505},
	{Name: "HTTP/3.7", Raw: "GET /p HTTP/3.7\r\nHost: a\r\n\r\n", Status: 505},
	{Name: "HTTP/0.9", Raw: "GET /p\r\n\r\n", Status: 400},
	{Name: "HTTP/0.9 that says so", Raw: "GET /p HTTP/0.9\r\nHost: a\r\n\r\n", Status: 505},
	{Name: "version in lower case", Raw: "GET /p http/1.1\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "version of one number", Raw: "GET /p HTTP/11\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "half an HTTP/2 preface", Raw: "PRI * HTTP/2.0\r\n\r\n" + Smuggled, Status: 505},
	{Name: "space after the version", Raw: "GET /p HTTP/1.1 \r\nHost: a\r\n\r\n", Status: 400},
	{Name: "two spaces", Raw: "GET  /p HTTP/1.1\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "tab for a space", Raw: "GET\t/p HTTP/1.1\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "space before the method", Raw: " GET /p HTTP/1.1\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "asterisk of a GET", Raw: "GET * HTTP/1.1\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "encoded NUL", Raw: "GET /a%00b HTTP/1.1\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "bad percent encoding", Raw: "GET /a%zz HTTP/1.1\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "fragment", Raw: "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "CONNECT", Raw: "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", Status: 405},
	{Name: "space in the target", Raw: "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "control byte in the target", Raw: "GET /a\x01b HTTP/1.1\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "target without a slash", Raw: "GET p HTTP/1.1\r\nHost: a\r\n\r\n", Status: 400},
	{Name: "upgrade and close", Raw: GetHead + "Connection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n", Status: 400},
	{Name: "upgrade and close in two fields", Raw: GetHead + "Connection: close\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", Status: 400},
	{Name: "other expectation", Raw: PostHead + "Expect: 200-ok\r\nContent-Length: 2\r\n\r\nok", Status: 417},
	{Name: "too many fields", Raw: GetHead + strings.Repeat("X: y\r\n", 257) + "\r\n", Status: 431},
	{Name: "header block too large", Raw: GetHead + "X: " + strings.Repeat("y", 70<<10) + "\r\n\r\n", Status: 431},
	{Name: "target too large", Raw: "GET /" + strings.Repeat("y", 70<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", Status: 414},

	{Name: "chunk size in C", Raw: PostHead + "Transfer-Encoding: chunked\r\n\r\n0x2\r\nok\r\n0\r\n\r\n", Status: 400},
	{Name: "negative chunk size", Raw: PostHead + "Transfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n", Status: 400},
	{Name: "chunk size overflow", Raw: PostHead + "Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\nok\r\n0\r\n\r\n", Status: 400},
	{Name: "chunk line ended by LF", Raw: PostHead + "Transfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n", Status: 400},
	{Name: "space before the extension", Raw: PostHead + "Transfer-Encoding: chunked\r\n\r\n3 ;x\r\nabc\r\n0\r\n\r\n", Status: 400},
	{Name: "chunk longer than its size", Raw: PostHead + "Transfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n", Status: 400},
	{Name: "chunk extension flood", Raw: PostHead + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 1<<20) + "\r\nok\r\n0\r\n\r\n", Status: 400},
	{Name: "flood of small extensions", Raw: PostHead + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\na\r\n", 1000) + "0\r\n\r\n", Status: 400},
	{Name: "flood of chunks of one byte", Raw: PostHead + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;abcdefghijklmnopq\r\na\r\n", 10_000) + "0\r\n\r\n", Status: 400},
	{Name: "trailer flood", Raw: PostHead + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: y\r\n", 10_000) + "\r\n", Status: 400},
	{Name: "trailer without a colon", Raw: PostHead + "Transfer-Encoding: chunked\r\n\r\n0\r\nGET / HTTP/1.1\r\n\r\n", Status: 400},

	{Name: "double slash is a path", Raw: "GET //x://y/z HTTP/1.1\r\nHost: a.test\r\n\r\n", Status: 200, Target: "//x://y/z", Host: "a.test"},
	{Name: "absolute form beats Host", Raw: "GET http://b.test:81/x?y HTTP/1.1\r\nHost: a.test\r\n\r\n", Status: 200, Target: "/x?y", Host: "b.test:81"},
	{Name: "encoded slash and empty query", Raw: "GET /a%2Fb/../c? HTTP/1.1\r\nHost: a.test\r\n\r\n", Status: 200, Target: "/a%2Fb/../c?", Host: "a.test"},
	{Name: "8 bit in the target", Raw: "GET /\xc3\xa9 HTTP/1.1\r\nHost: a.test\r\n\r\n", Status: 200, Target: "/\xc3\xa9", Host: "a.test"},
	{Name: "percent sign in the query", Raw: "GET /a?100% HTTP/1.1\r\nHost: a.test\r\n\r\n", Status: 200, Target: "/a?100%", Host: "a.test"},
	{Name: "absolute form without a path", Raw: "GET HTTP://b.test?x HTTP/1.1\r\nHost: a.test\r\n\r\n", Status: 200, Target: "/?x", Host: "b.test"},
	{Name: "length with an underscore", Raw: PostHead + "Content_Length: 43\r\nContent-Length: 2\r\n\r\nok", Status: 200, Target: "/p", Host: "a.test", Body: "ok"},
	{Name: "length", Raw: PostHead + "Content-Length: 5\r\n\r\nhello", Status: 200, Target: "/p", Host: "a.test", Body: "hello"},
	{Name: "a request as the body", Raw: PostHead + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(Smuggled), Smuggled), Status: 200, Target: "/p", Host: "a.test", Body: Smuggled},
	{Name: "chunks", Raw: PostHead + "Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", Status: 200, Target: "/p", Host: "a.test", Body: "hello"},
	{Name: "a request in chunks", Raw: PostHead + fmt.Sprintf("Transfer-Encoding: CHUNKED\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(Smuggled), Smuggled), Status: 200, Target: "/p", Host: "a.test", Body: Smuggled},
	{Name: "trailers are dropped", Raw: PostHead + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\nContent-Length: 9\r\n\r\n", Status: 200, Target: "/p", Host: "a.test", Body: "ok"},
	{Name: "trailers that must not be", Raw: PostHead + "Transfer-Encoding: chunked\r\nTrailer: Authorization, Host\r\n\r\n2\r\nok\r\n0\r\nAuthorization: x\r\nHost: evil\r\n\r\n", Status: 200, Target: "/p", Host: "a.test", Body: "ok"},
	{Name: "framing named by Connection", Raw: PostHead + "Connection: Content-Length, Host\r\nContent-Length: 5\r\n\r\nhello", Status: 200, Target: "/p", Host: "a.test", Body: "hello"},
	{Name: "body of a GET", Raw: GetHead + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(Smuggled), Smuggled), Status: 200, Target: "/p", Host: "a.test", Body: Smuggled},
	{Name: "empty lines first", Raw: "\r\n\r\n" + GetHead + "\r\n", Status: 200, Target: "/p", Host: "a.test"},
	{Name: "HTTP/1.0", Raw: "GET /p HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n", Status: 200, Target: "/p", Host: "a.test"},
	{Name: "h2c upgrade is ignored", Raw: GetHead + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", Status: 200, Target: "/p", Host: "a.test"},
	{Name: "upgrade with a body is ignored", Raw: PostHead + "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nok", Status: 200, Target: "/p", Host: "a.test", Body: "ok"},
	{Name: "upgrade that Connection does not name", Raw: GetHead + "Upgrade: websocket\r\n\r\n", Status: 200, Target: "/p", Host: "a.test"},
}
