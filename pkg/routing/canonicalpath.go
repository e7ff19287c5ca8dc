package routing

import (
	"bytes"
	"errors"
	"strings"
)

// Why a path has no canonical form.
var (
	ErrPathEscape = errors.New("a '%' is not followed by two hexadecimal digits")
	ErrPathNUL    = errors.New("an encoded NUL")
)

// pathByte says what a byte of a path is.
type pathByte uint8

const (
	inPath     pathByte = 1 << iota // RFC 3986 pchar but "%", and "/"
	unreserved                      // RFC 3986
)

var pathBytes = func() (t [256]pathByte) {
	for c := range 256 {
		switch b := byte(c); {
		case 'a' <= b|0x20 && b|0x20 <= 'z', '0' <= b && b <= '9', strings.IndexByte("-._~", b) >= 0:
			t[c] = inPath | unreserved
		case strings.IndexByte("!$&'()*+,;=:@/", b) >= 0:
			t[c] = inPath
		}
	}
	return t
}()

// IsCanonicalPath says whether p, which is not empty, is surely its own
// canonical form: it begins with "/", has path bytes only and no "%", and no
// segment of it begins with a dot. One pass, no allocation.
func IsCanonicalPath(p []byte) bool {
	last := byte(0)
	for _, c := range p {
		if pathBytes[c]&inPath == 0 || c == '.' && last == '/' {
			return false
		}
		last = c
	}
	return p[0] == '/'
}

const upperHex = "0123456789ABCDEF"

// AppendCanonicalPath appends the one form that equivalent paths share (RFC
// 3986 6.2.2), in which requests and routes meet: encoded unreserved characters
// decoded, every other encoding in upper case, bytes that a path cannot hold
// encoded, dot segments resolved. An encoded slash stays encoded and separates
// nothing, and empty segments stay.
//
// path begins with "/"; the result does too and never climbs above it. The error
// is ErrPathEscape or ErrPathNUL.
func AppendCanonicalPath(dst, path []byte) ([]byte, error) {
	start := len(dst)
	for i := 0; i < len(path); {
		c, width := unescapedAt(path, i)
		i += width
		switch {
		case width == 1 && c == '%':
			return nil, ErrPathEscape
		case width > 1 && c == 0:
			return nil, ErrPathNUL
		case pathBytes[c]&unreserved != 0, width == 1 && pathBytes[c]&inPath != 0:
			dst = append(dst, c)
		default:
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return dst[:start+removeDotSegments(dst[start:])], nil
}

// removeDotSegments resolves "." and ".." of p, which begins with "/", in place
// (RFC 3986 5.2.4) and returns the new length.
func removeDotSegments(p []byte) int {
	w := 0
	for r := 0; r < len(p); {
		end := bytes.IndexByte(p[r+1:], '/')
		if end < 0 {
			end = len(p)
		} else {
			end += r + 1
		}
		segment := p[r+1 : end]
		last := end == len(p)
		switch {
		case len(segment) == 1 && segment[0] == '.':
		case len(segment) == 2 && segment[0] == '.' && segment[1] == '.':
			w = max(0, bytes.LastIndexByte(p[:w], '/'))
		default:
			w += copy(p[w:], p[r:end])
			last = false
		}
		if last { // "/a/." and "/a/.." end in a slash
			p[w] = '/'
			w++
		}
		r = end
	}
	return w
}

// PathAfter is what follows the first n bytes of canonical, which
// AppendCanonicalPath made of path, in the spelling of path. A path with dot
// segments has no such spelling (what follows would climb out of what replaces
// the beginning): of it the canonical rest counts.
func PathAfter(path, canonical []byte, n int) []byte {
	if n > len(canonical) {
		return nil
	}
	if bytes.Equal(path, canonical) {
		return path[n:]
	}
	length, at := 0, -1
	for i := 0; i < len(path); {
		if length == n {
			at = i
		}
		c, width := unescapedAt(path, i)
		i += width
		if pathBytes[c]&unreserved != 0 || width == 1 && pathBytes[c]&inPath != 0 {
			length++
		} else {
			length += 3
		}
	}
	switch {
	case length != len(canonical): // dot segments were taken out
		return canonical[n:]
	case length == n:
		return nil
	case at < 0:
		return canonical[n:]
	}
	return path[at:]
}
