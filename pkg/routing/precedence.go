package routing

import (
	"cmp"
	"strings"
)

// entrant is one match of one rule of one route, where it competes with the
// others of a hostname.
type entrant struct {
	match *compiledMatch
	route *compiledRoute
	rule  int // position in the route
	order int // position in the rule
	slot  int32
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

// compareEntrants orders by precedence, the winner first: exact path, then
// expressions and then prefixes, the longer first, then a method, then most
// headers, then most query parameters, then the oldest route, then
// namespace/name, then the first rule.
// Source: Gateway API, HTTPRouteRule.matches.
func compareEntrants(a, b entrant) int {
	return cmp.Or(
		cmp.Compare(pathClass(a.match.pathType), pathClass(b.match.pathType)),
		cmp.Compare(len(b.match.path), len(a.match.path)),
		cmp.Compare(methodClass(a.match.method), methodClass(b.match.method)),
		cmp.Compare(len(b.match.headers), len(a.match.headers)),
		cmp.Compare(len(b.match.query), len(a.match.query)),
		cmp.Compare(a.route.created, b.route.created),
		strings.Compare(a.route.key, b.route.key),
		cmp.Compare(a.rule, b.rule),
		cmp.Compare(a.order, b.order),
	)
}

func methodClass(method string) int {
	if method != "" {
		return 0
	}
	return 1
}
