package routing

// Headers looks up request header fields for routing keys. Front ends adapt
// their own header type to it.
//
// Value returns the value of the first field line with that name, nil when
// there is none. Names are canonical as CanonicalHeaderName gives them
// ("X-Session-Id"); the adapter compares as its library stores them. The bytes
// are only read, and only during the call that asked.
type Headers interface {
	Value(name string) []byte
}

// CanonicalHeaderName returns name with the first letter and every letter after
// a hyphen in upper case and all others in lower case, the form in which both
// fasthttp and net/http store field names. An underscore is an ordinary
// character: "SESSION_ID" becomes "Session_id".
func CanonicalHeaderName(name string) string {
	b := []byte(name)
	upper := true
	for i, c := range b {
		switch {
		case upper && 'a' <= c && c <= 'z':
			b[i] = c - 'a' + 'A'
		case !upper && 'A' <= c && c <= 'Z':
			b[i] = c - 'A' + 'a'
		}
		upper = c == '-'
	}
	return string(b)
}
