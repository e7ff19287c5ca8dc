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
	exact     index[T]
	wildcards index[T] // by suffix with its dot: ".example.com"
	any       *T
}

// newHostTable takes what stands under each hostname, "" for every host.
func newHostTable[T any](byHostname map[string]T) hostTable[T] {
	var t hostTable[T]
	exact, wildcards := map[string]T{}, map[string]T{}
	for hostname, v := range byHostname {
		switch {
		case hostname == "":
			t.any = &v
		case hostname[0] == '*':
			wildcards[hostname[1:]] = v
		default:
			exact[hostname] = v
		}
	}
	t.exact, t.wildcards = newIndex(exact), newIndex(wildcards)
	return t
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
		w.at = max(1, len(w.host)-t.wildcards.longest)
		if v := t.exact.get(w.host); v != nil {
			return v
		}
	}
	for w.at != hostDone {
		dot := -1
		if w.at < len(w.host) {
			dot = bytes.IndexByte(w.host[w.at:], '.')
		}
		if dot < 0 {
			w.at = hostDone
			return t.any
		}
		suffix := w.host[w.at+dot:]
		w.at += dot + 1
		if v := t.wildcards.get(suffix); v != nil {
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
