package routing

import "bytes"

// queryValue finds the first parameter called name (compared after percent
// decoding, with case) in a raw query. The value is raw. A parameter without
// "=" has an empty value. "+" is an ordinary character.
func queryValue(query []byte, name string) (raw []byte, ok bool) {
	for len(query) > 0 {
		pair := query
		if i := bytes.IndexByte(query, '&'); i >= 0 {
			pair, query = query[:i], query[i+1:]
		} else {
			query = nil
		}
		key, value := pair, pair[len(pair):]
		if i := bytes.IndexByte(pair, '='); i >= 0 {
			key, value = pair[:i], pair[i+1:]
		}
		if len(key) >= len(name) && escapedEquals(key, name) {
			return value, true
		}
	}
	return nil, false
}

// escapedEquals says whether raw, percent-decoded, is want. A "%" that begins
// no valid escape stands for itself.
func escapedEquals(raw []byte, want string) bool {
	n := 0
	for i := 0; i < len(raw); n++ {
		if n == len(want) {
			return false
		}
		c, width := unescapedAt(raw, i)
		if c != want[n] {
			return false
		}
		i += width
	}
	return n == len(want)
}

// unescapedAt is the byte that raw[i:] begins with, and how many bytes say so.
func unescapedAt(raw []byte, i int) (c byte, width int) {
	if raw[i] == '%' && i+2 < len(raw) {
		hi, lo := hexValue(raw[i+1]), hexValue(raw[i+2])
		if hi >= 0 && lo >= 0 {
			return byte(hi<<4 | lo), 3
		}
	}
	return raw[i], 1
}

func hexValue(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// unescape percent-decodes raw; it allocates only where there is an escape.
func unescape(raw []byte) []byte {
	if bytes.IndexByte(raw, '%') < 0 {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		c, width := unescapedAt(raw, i)
		out = append(out, c)
		i += width
	}
	return out
}

// unescapeInto decodes raw into dst; false: it does not fit.
func unescapeInto(dst, raw []byte) (int, bool) {
	n := 0
	for i := 0; i < len(raw); n++ {
		if n == len(dst) {
			return 0, false
		}
		c, width := unescapedAt(raw, i)
		dst[n] = c
		i += width
	}
	return n, true
}
