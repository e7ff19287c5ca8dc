package routing

import (
	"bytes"
	"regexp"
)

// candidate is an entrant as it is compared with requests. It fits a cache line.
type candidate struct {
	path   string // exact path, or prefix without trailing slash
	method string // "" for any
	more   *candidateConditions
	// rank is the place in the order of precedence within the hostname: the
	// lowest rank that holds wins.
	rank int32
	// slot is the index of its MatchedRule in the listener.
	slot  int32
	exact bool // path is the whole path
	cors  bool // its rule has a CORS filter
}

// candidateConditions are what most candidates do without; nil stands for none.
type candidateConditions struct {
	regex  *regexp.Regexp // of the path; nil: the path is no expression
	values []valueCondition
}

// newCandidates turns the entrants of one hostname, sorted by precedence, into
// candidates.
func newCandidates(entrants []entrant) []candidate {
	out := make([]candidate, len(entrants))
	for i, e := range entrants {
		m := e.match
		out[i] = candidate{
			path: m.path, method: sharedMethod(m.method),
			rank: int32(i), slot: e.slot, exact: m.pathType == PathExact,
			cors: e.route.rules[e.rule].CORS != nil,
		}
		if n := len(m.headers) + len(m.query); n > 0 || m.regex != nil {
			values := append(append(make([]valueCondition, 0, n), m.headers...), m.query...)
			out[i].more = &candidateConditions{m.regex, values}
		}
	}
	return out
}

// sharedMethod gives a usual method as one constant, so that comparing does not
// leave the cache for each candidate's own copy.
func sharedMethod(method string) string {
	for _, m := range [...]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		if m == method {
			return m
		}
	}
	return method
}

func (c *candidate) isExpression() bool { return c.more != nil && c.more.regex != nil }

// values are the conditions on headers, model and query.
func (c *candidate) values() []valueCondition {
	if c.more == nil {
		return nil
	}
	return c.more.values
}

// onPath says whether the candidate's path is path's.
func (c *candidate) onPath(path []byte) bool {
	switch {
	case c.isExpression():
		return c.more.regex.Match(path)
	case c.exact:
		return c.path == string(path)
	default:
		return len(path) >= len(c.path) && string(path[:len(c.path)]) == c.path &&
			(len(path) == len(c.path) || path[len(c.path)] == '/')
	}
}

// holds says whether everything but the path holds.
func (c *candidate) holds(r *Request) bool {
	if c.method != "" && string(r.Method) != c.method {
		return false
	}
	values := c.values()
	for i := range values {
		if !values[i].holds(r) {
			return false
		}
	}
	return true
}

// holdsForPreflight is holds with the announced method and without the
// conditions that a preflight cannot meet.
func (c *candidate) holdsForPreflight(r *Request, method []byte) bool {
	if !c.cors || c.method != "" && string(method) != c.method {
		return false
	}
	values := c.values()
	for i := range values {
		if cond := &values[i]; (cond.preflight || cond.kind == onQuery) && !cond.holds(r) {
			return false
		}
	}
	return true
}

// without is the candidate with all conditions but one. It is no expression.
func (c candidate) without(skip *valueCondition) candidate {
	values := c.values()
	c.more = nil
	if len(values) > 1 {
		c.more = &candidateConditions{}
		for i := range values {
			if &values[i] != skip {
				c.more.values = append(c.more.values, values[i])
			}
		}
	}
	return c
}

// nextPrefix is the length of the longest prefix of whole segments of path that
// is shorter than n; -1 after the empty one.
func nextPrefix(path []byte, n int) int {
	if n <= 0 {
		return -1
	}
	return max(bytes.LastIndexByte(path[:n], '/'), 0)
}
