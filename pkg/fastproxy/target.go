package fastproxy

import (
	"bytes"

	"flexinfer.ai/gateway/pkg/routing"
)

// requestTarget is a request's target and authority, taken apart.
//
// What is legal by RFC 3986/9112 passes, and so do the bytes that clients send
// raw in practice (quotes, braces, backslashes, 8-bit): they are forwarded as
// received. Refused are control characters, spaces, "#" (no part of a target),
// and in the path a "%" without two hex digits or an encoded NUL; a query's
// percent signs are not looked at. Empty segments ("//") are kept everywhere.
type requestTarget struct {
	target, path, query []byte
	// canonical is the path that rules are matched against; see
	// routing.AppendCanonicalPath. It shares path's memory where both are equal.
	canonical []byte
	// authority as received and its host; empty where the client named none.
	authority, host []byte
}

var (
	slash    = []byte("/")
	asterisk = []byte("*")
)

// parse takes raw (from the request line, or :path) and hostField (Host, or
// :authority) apart. canonicalBuf is memory for the canonical path and for the
// host. It returns nil or why the request is refused; the results share the
// memory of the arguments.
//
// "*" (OPTIONS only) has path and canonical path "*". An absolute-form target
// gives its origin form, and its authority replaces the Host field (RFC 9112
// 3.2.2).
func (t *requestTarget) parse(method, raw, hostField []byte, scratch *[]byte) *refusal {
	*t = requestTarget{target: raw, authority: hostField}
	if !targetBytesOK(raw) {
		return &refuseTarget
	}
	switch {
	case raw[0] == '/':
	case len(raw) == 1 && raw[0] == '*':
		if string(method) != "OPTIONS" {
			return &refuseTarget
		}
	default:
		if r := t.absolute(method, raw, scratch); r != nil {
			return r
		}
	}
	host, ok := splitAuthority(t.authority)
	if !ok {
		return &refuseHost
	}
	t.path = t.target
	if i := bytes.IndexByte(t.target, '?'); i >= 0 {
		t.path, t.query = t.target[:i], t.target[i+1:]
	}
	n := len(*scratch)
	*scratch = appendLower(*scratch, host)
	t.host = (*scratch)[n:]
	return t.canonicalize(scratch)
}

// canonicalize sets t.canonical.
func (t *requestTarget) canonicalize(scratch *[]byte) *refusal {
	if routing.IsCanonicalPath(t.path) {
		t.canonical = t.path
		return nil
	}
	if t.path[0] == '*' {
		t.canonical = asterisk
		return nil
	}
	n := len(*scratch)
	out, err := routing.AppendCanonicalPath(*scratch, t.path)
	switch err {
	case nil:
	case routing.ErrPathNUL:
		return &refuseTargetNUL
	default:
		return &refuseTarget
	}
	*scratch = out
	t.canonical = out[n:]
	return nil
}

// absolute takes "http://authority/path?query" apart.
func (t *requestTarget) absolute(method, raw []byte, scratch *[]byte) *refusal {
	i := bytes.Index(raw, []byte("://"))
	if i < 0 || !equalFold(raw[:i], "http") && !equalFold(raw[:i], "https") {
		return &refuseTarget
	}
	rest := raw[i+3:]
	end := bytes.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	t.authority, t.target = rest[:end], rest[end:]
	if end == 0 {
		return &refuseTarget
	}
	switch {
	case len(t.target) == 0 && string(method) == "OPTIONS":
		t.target = asterisk
	case len(t.target) == 0:
		t.target = slash
	case t.target[0] == '?':
		n := len(*scratch)
		*scratch = append(append(*scratch, '/'), t.target...)
		t.target = (*scratch)[n:]
	}
	return nil
}

// targetBytesOK says whether raw is not empty and holds nothing that can end
// or split a request line, and no fragment.
func targetBytesOK(raw []byte) bool {
	for _, c := range raw {
		if c <= ' ' || c == 0x7f || c == '#' {
			return false
		}
	}
	return len(raw) > 0
}

// splitAuthority checks an authority (host, optional port; no userinfo) and
// returns its host without port and without a trailing dot. An empty authority
// is an empty host. Names are DNS names with "_" and "~" allowed; RFC 3986's
// percent-encoding and sub-delimiters are refused, since no DNS name has them
// and peers disagree about them.
func splitAuthority(a []byte) (host []byte, ok bool) {
	if len(a) == 0 {
		return a, true
	}
	var rest []byte
	if a[0] == '[' {
		end := bytes.IndexByte(a, ']')
		if end < 0 || !isIPv6Literal(a[1:end]) {
			return nil, false
		}
		host, rest = a[:end+1], a[end+1:]
	} else {
		end := bytes.IndexByte(a, ':')
		if end < 0 {
			end = len(a)
		}
		host, rest = a[:end], a[end:]
		if n := len(host); n > 1 && host[n-1] == '.' {
			host = host[:n-1]
		}
		if len(host) == 0 || len(host) > 255 || !all(host, hostByte) {
			return nil, false
		}
	}
	return host, len(rest) == 0 || rest[0] == ':' && isPort(rest[1:])
}

// isIPv6Literal says whether b can be the inside of an IP literal's brackets.
func isIPv6Literal(b []byte) bool {
	colons := 0
	for _, c := range b {
		switch {
		case c == ':':
			colons++
		case c != '.' && byteClasses[c]&hexByte == 0:
			return false
		}
	}
	return colons >= 2 && len(b) <= 45
}

// isPort says whether b is a port number; RFC 3986 allows it to be empty.
func isPort(b []byte) bool {
	if len(b) > 5 || !all(b, digitByte) {
		return false
	}
	n := 0
	for _, c := range b {
		n = n*10 + int(c-'0')
	}
	return n <= 65535
}

// appendLower appends b with ASCII letters in lower case.
func appendLower(dst, b []byte) []byte {
	n := len(dst)
	dst = append(dst, b...)
	for i, c := range dst[n:] {
		if 'A' <= c && c <= 'Z' {
			dst[n+i] = c | 0x20
		}
	}
	return dst
}
