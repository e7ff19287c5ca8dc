package routing

import (
	"cmp"
	"strings"
)

// candidate is one match of one rule of one route, where it competes with the
// others of a hostname.
type candidate struct {
	match *compiledMatch
	// rank is the place in the order of precedence within the hostname: the
	// lowest rank whose conditions hold wins.
	rank int32
	// slot is the index of its MatchedRule in the listener.
	slot int32

	route       *compiledRoute
	rule, order int // positions of the rule in the route, of the match in the rule
}

// The order of path types. Regular expressions, which the Gateway API leaves to
// the implementation, come after exact paths and before prefixes.
func pathClass(t PathType) int {
	switch t {
	case PathExact:
		return 0
	case PathRegex:
		return 1
	default:
		return 2
	}
}

// compareCandidates orders by precedence, the winner first: exact path, then
// expressions and then prefixes, the longer first, then a method, then most
// headers, then most query parameters, then the oldest route, then
// namespace/name, then the first rule.
// Source: Gateway API, HTTPRouteRule.matches.
func compareCandidates(a, b *candidate) int {
	return cmp.Or(
		cmp.Compare(pathClass(a.match.pathType), pathClass(b.match.pathType)),
		cmp.Compare(pathLength(b.match), pathLength(a.match)),
		cmp.Compare(methodClass(a.match.method), methodClass(b.match.method)),
		cmp.Compare(len(b.match.headers), len(a.match.headers)),
		cmp.Compare(len(b.match.query), len(a.match.query)),
		cmp.Compare(a.route.created, b.route.created),
		strings.Compare(a.route.key, b.route.key),
		cmp.Compare(a.rule, b.rule),
		cmp.Compare(a.order, b.order),
	)
}

func pathLength(m *compiledMatch) int {
	if m.pathType == PathRegex {
		return len(m.rawPath)
	}
	return len(m.path)
}

func methodClass(method string) int {
	if method != "" {
		return 0
	}
	return 1
}
