package routing

import (
	"bytes"
	"strings"
)

// hostTable finds what stands under a hostname, the most specific first: the
// exact name, then wildcards from the longest to the shortest, then what takes
// every host.
//
// Cost of a walk: one hash look-up a label of the host; labels in front of the
// longest wildcard cost nothing, so a host made of dots is as cheap as any.
type hostTable[T any] struct {
	exact       map[string]*T
	wildcards   map[string]*T // by suffix with its dot: ".example.com"
	any         *T
	longestWild int
}

// put binds v to hostname; false: the hostname is taken.
func (t *hostTable[T]) put(hostname string, v *T) bool {
	switch {
	case hostname == "":
		if t.any != nil {
			return false
		}
		t.any = v
	case strings.HasPrefix(hostname, "*."):
		suffix := hostname[1:]
		if t.wildcards[suffix] != nil {
			return false
		}
		if t.wildcards == nil {
			t.wildcards = map[string]*T{}
		}
		t.wildcards[suffix] = v
		t.longestWild = max(t.longestWild, len(suffix))
	default:
		if t.exact[hostname] != nil {
			return false
		}
		if t.exact == nil {
			t.exact = map[string]*T{}
		}
		t.exact[hostname] = v
	}
	return true
}

// get is what was put under exactly hostname.
func (t *hostTable[T]) get(hostname string) *T {
	switch {
	case hostname == "":
		return t.any
	case strings.HasPrefix(hostname, "*."):
		return t.wildcards[hostname[1:]]
	default:
		return t.exact[hostname]
	}
}

// hostWalk is the state of one walk.
type hostWalk[T any] struct {
	table *hostTable[T]
	host  []byte
	at    int // where the search for the next dot begins; hostExact, hostDone
}

const (
	hostExact = -1
	hostDone  = -2
)

func (t *hostTable[T]) walk(host []byte) hostWalk[T] {
	return hostWalk[T]{table: t, host: host, at: hostExact}
}

// next is the next less specific entry, nil at the end.
func (w *hostWalk[T]) next() *T {
	t := w.table
	if w.at == hostExact {
		// A wildcard takes at least one label: start behind the first byte.
		w.at = max(1, len(w.host)-t.longestWild)
		if t.exact != nil {
			if v := t.exact[string(w.host)]; v != nil {
				return v
			}
		}
	}
	for w.at != hostDone {
		dot := -1
		if t.wildcards != nil && w.at < len(w.host) {
			dot = bytes.IndexByte(w.host[w.at:], '.')
		}
		if dot < 0 {
			w.at = hostDone
			return t.any
		}
		suffix := w.host[w.at+dot:]
		w.at += dot + 1
		if v := t.wildcards[string(suffix)]; v != nil {
			return v
		}
	}
	return nil
}

// checkHostname says what is wrong with a listener's or route's hostname; "":
// nothing. Full syntax is checked at admission; here only what a table needs.
func checkHostname(h string) string {
	rest := strings.TrimPrefix(h, "*.")
	switch {
	case h == "":
		return ""
	case len(h) > 253:
		return "is longer than 253 bytes"
	case h != strings.ToLower(h):
		return "is not in lower case"
	case strings.Contains(rest, "*"):
		return `holds a "*" that is not the whole first label`
	case rest == "" || strings.HasPrefix(rest, ".") || strings.HasSuffix(rest, ".") || strings.Contains(rest, ".."):
		return "holds an empty label"
	case strings.ContainsAny(rest, "/: \t"):
		return "holds a character that no hostname has"
	}
	return ""
}
