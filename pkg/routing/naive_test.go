package routing

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// The naive matcher is the oracle of the compiled one: it walks over every
// match of every rule and keeps the best.

type naiveHit struct {
	route    *Route
	rule     int
	match    Match
	hostname string
	order    int
}

type naiveRequest struct {
	method, host, path, query string
	headers                   fields
	model                     string // "" for none
}

// naiveMatch returns the winner on a listener, nil for none. With announced, it
// answers a preflight that announces that method.
func naiveMatch(c *Config, listener string, r *naiveRequest, announced string) *naiveHit {
	var best *naiveHit
	for i := range c.Routes {
		route := &c.Routes[i]
		for _, a := range route.Listeners {
			if a.Listener != listener {
				continue
			}
			hostnames := a.Hostnames
			if len(hostnames) == 0 {
				hostnames = []string{""}
			}
			for _, h := range hostnames {
				for rule := range route.Rules {
					matches := route.Rules[rule].Matches
					if len(matches) == 0 {
						matches = []Match{{}}
					}
					for order, m := range matches {
						hit := &naiveHit{route, rule, m, h, order}
						if hit.holds(r, announced) && (best == nil || hit.beats(best)) {
							best = hit
						}
					}
				}
			}
		}
	}
	return best
}

func (n *naiveHit) holds(r *naiveRequest, announced string) bool {
	preflight := announced != ""
	if preflight && !slices.ContainsFunc(n.route.Rules[n.rule].Filters, func(f Filter) bool { return f.CORS != nil }) {
		return false
	}
	method := r.method
	if preflight {
		method = announced
	}
	if !naiveHost(n.hostname, r.host) || !naivePath(n.match, r.path) || n.match.Method != "" && n.match.Method != method {
		return false
	}
	for _, h := range naiveFirsts(n.match.Headers, true) {
		isModel := strings.EqualFold(h.Name, "x-gateway-model-name")
		if preflight && (isModel || !strings.EqualFold(h.Name, "origin")) {
			continue
		}
		v, present := r.headers[CanonicalHeaderName(h.Name)]
		if isModel {
			v, present = r.model, r.model != ""
		}
		if !present || !naiveValue(h, v) {
			return false
		}
	}
	for _, q := range naiveFirsts(n.match.Query, false) {
		v, present := naiveQuery(r.query, q.Name)
		if !present || !naiveValue(q, v) {
			return false
		}
	}
	return true
}

func naiveHost(hostname, host string) bool {
	if suffix, wild := strings.CutPrefix(hostname, "*"); wild {
		return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
	}
	return hostname == "" || hostname == host
}

func naivePath(m Match, path string) bool {
	want := m.Path
	if want == "" {
		want = "/"
	}
	switch m.PathType {
	case PathExact:
		return path == want
	case PathRegex:
		loc := regexp.MustCompile("^(" + m.Path + ")$").FindStringIndex(path)
		return loc != nil
	}
	wanted := strings.Split(strings.TrimSuffix(want, "/"), "/")
	got := strings.Split(path, "/")
	return len(got) >= len(wanted) && slices.Equal(got[:len(wanted)], wanted)
}

func naiveFirsts(list []ValueMatch, foldCase bool) []ValueMatch {
	var out []ValueMatch
	for _, m := range list {
		if !slices.ContainsFunc(out, func(o ValueMatch) bool {
			return o.Name == m.Name || foldCase && strings.EqualFold(o.Name, m.Name)
		}) {
			out = append(out, m)
		}
	}
	return out
}

func naiveValue(m ValueMatch, v string) bool {
	if m.Type == ValueRegex {
		return regexp.MustCompile("^(" + m.Value + ")$").MatchString(v)
	}
	return m.Value == v
}

func naiveQuery(query, name string) (string, bool) {
	decode := func(s string) string {
		if out, err := url.PathUnescape(s); err == nil {
			return out
		}
		return s // the generator makes no half-valid escapes
	}
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		if decode(key) == name {
			return decode(value), true
		}
	}
	return "", false
}

// beats is the order of choice written down as a list of questions.
func (n *naiveHit) beats(o *naiveHit) bool {
	type question struct{ a, b int }
	host := func(h string) int {
		switch {
		case h == "":
			return 0
		case h[0] == '*':
			return len(h)
		default:
			return 1_000_000
		}
	}
	class := map[PathType]int{PathExact: 3, PathRegex: 2, PathPrefix: 1, "": 1}
	length := func(m Match) int {
		if m.PathType == PathRegex {
			return len(m.Path)
		}
		return len(strings.TrimSuffix(m.Path, "/"))
	}
	method := func(m Match) int { return min(len(m.Method), 1) }
	for _, q := range []question{
		{host(n.hostname), host(o.hostname)},
		{class[n.match.PathType], class[o.match.PathType]},
		{length(n.match), length(o.match)},
		{method(n.match), method(o.match)},
		{len(naiveFirsts(n.match.Headers, true)), len(naiveFirsts(o.match.Headers, true))},
		{len(naiveFirsts(n.match.Query, false)), len(naiveFirsts(o.match.Query, false))},
		{int(o.route.Created), int(n.route.Created)}, // the older wins
	} {
		if q.a != q.b {
			return q.a > q.b
		}
	}
	if n.route.Key != o.route.Key {
		return n.route.Key < o.route.Key
	}
	return n.rule < o.rule || n.rule == o.rule && n.order < o.order
}
