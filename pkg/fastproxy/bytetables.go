package fastproxy

import "encoding/binary"

// byteClass says what a byte may be part of.
type byteClass uint8

const (
	tokenByte byteClass = 1 << iota // RFC 9110 token
	hostByte                        // registered name, strict: letters, digits, "-._~"
	hexByte
	digitByte
)

var byteClasses = func() (t [256]byteClass) {
	set := func(class byteClass, chars string) {
		for i := range len(chars) {
			t[chars[i]] |= class
		}
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = tokenByte | hostByte | hexByte | digitByte
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c] = tokenByte | hostByte
		t[c-'a'+'A'] = t[c]
	}
	set(hexByte, "abcdefABCDEF")
	set(tokenByte, "!#$%&'*+-.^_`|~")
	set(hostByte, "-._~")
	return t
}()

// all says whether every byte of b is in class.
func all(b []byte, class byteClass) bool {
	for _, c := range b {
		if byteClasses[c]&class == 0 {
			return false
		}
	}
	return true
}

const upperHex = "0123456789ABCDEF"

// unhex is the value of a hexadecimal digit.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return (c | 0x20) - 'a' + 10
}

// isToken says whether b is a token (RFC 9110 5.6.2): not empty, token bytes only.
func isToken(b []byte) bool { return len(b) > 0 && all(b, tokenByte) }

// fieldValueOK says whether v may be a field value: no control byte but tab.
// Eight bytes at a time; a word with a byte below 0x20 or equal to 0x7f is
// looked at byte by byte.
func fieldValueOK(v []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(v) >= 8 {
		w := binary.LittleEndian.Uint64(v)
		below := (w - ones*0x20) & ^w & highs
		del := w ^ ones*0x7f
		if below|((del-ones)&^del&highs) != 0 && !slowFieldValueOK(v[:8]) {
			return false
		}
		v = v[8:]
	}
	return slowFieldValueOK(v)
}

func slowFieldValueOK(v []byte) bool {
	for _, c := range v {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// equalFold says whether b is the ASCII string lower, without case. lower must
// be in lower case.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i := range b {
		c := b[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// trimOWS cuts optional white space (RFC 9110 5.6.3) off both ends.
func trimOWS(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}
