package routing

import (
	"fmt"
	"regexp"
	"strings"
)

// compiledMatch is one Match with everything but its path ready to compare.
type compiledMatch struct {
	pathType PathType
	path     string         // as written, a prefix without trailing slash
	regex    *regexp.Regexp // of a regular-expression path
	method   string
	headers  []valueCondition
	query    []valueCondition
}

// conditionKind says where a condition finds its value.
type conditionKind uint8

const (
	onModel conditionKind = iota
	onHeader
	onQuery
)

// valueCondition compares one header field, the model or one query parameter.
type valueCondition struct {
	kind  conditionKind
	name  string // canonical header name, or query parameter
	value string
	regex *regexp.Regexp // nil: exact
	// preflight: a CORS preflight carries the field, so the condition holds
	// for it too.
	preflight bool
}

func (c *valueCondition) holds(r *Request) bool {
	var v []byte
	switch c.kind {
	case onModel:
		v = r.Model
	case onHeader:
		if r.Headers == nil {
			return false
		}
		v = r.Headers.Value(c.name)
	case onQuery:
		return c.holdsForQuery(r.Query)
	}
	if v == nil {
		return false
	}
	if c.regex != nil {
		return c.regex.Match(v)
	}
	return string(v) == c.value
}

func (c *valueCondition) holdsForQuery(query []byte) bool {
	raw, ok := queryValue(query, c.name)
	if !ok {
		return false
	}
	if c.regex == nil {
		return escapedEquals(raw, c.value)
	}
	return c.regex.Match(unescape(raw))
}

// compileMatch prepares m; the error says what is wrong with it.
func compileMatch(m *Match) (compiledMatch, error) {
	c := compiledMatch{pathType: m.PathType, path: m.Path, method: m.Method}
	if c.pathType == "" {
		c.pathType = PathPrefix
	}
	if c.path == "" && c.pathType != PathRegex {
		c.path = "/"
	}
	switch c.pathType {
	case PathExact, PathPrefix:
		if !strings.HasPrefix(c.path, "/") {
			return c, fmt.Errorf("path %q does not begin with a slash", m.Path)
		}
		canonical, err := AppendCanonicalPath(nil, []byte(c.path))
		if err != nil {
			return c, fmt.Errorf("path %q: %w", m.Path, err)
		}
		c.path = string(canonical)
		if c.pathType == PathPrefix {
			c.path = strings.TrimSuffix(c.path, "/")
		}
	case PathRegex:
		re, err := wholeRegexp(m.Path)
		if err != nil {
			return c, fmt.Errorf("path expression %q: %w", m.Path, err)
		}
		c.regex = re
	default:
		return c, fmt.Errorf("unknown path type %q: use %s, %s or %s", m.PathType, PathExact, PathPrefix, PathRegex)
	}
	var err error
	if c.headers, err = compileConditions(m.Headers, onHeader); err != nil {
		return c, fmt.Errorf("header %w", err)
	}
	if c.query, err = compileConditions(m.Query, onQuery); err != nil {
		return c, fmt.Errorf("query parameter %w", err)
	}
	return c, nil
}

// compileConditions keeps the first of several conditions on one name, as the
// Gateway API asks for headers and query parameters alike.
func compileConditions(matches []ValueMatch, kind conditionKind) ([]valueCondition, error) {
	var out []valueCondition
	for _, m := range matches {
		c := valueCondition{kind: kind, name: m.Name, value: m.Value}
		if kind == onHeader {
			c.name = CanonicalHeaderName(m.Name)
			c.preflight = preflightCarries(c.name)
			if strings.EqualFold(m.Name, HeaderModelName) {
				c.kind = onModel
			}
		}
		if c.name == "" {
			return nil, fmt.Errorf("%q has no name", m.Value)
		}
		switch m.Type {
		case "", ValueExact:
		case ValueRegex:
			re, err := wholeRegexp(m.Value)
			if err != nil {
				return nil, fmt.Errorf("%s: expression %q: %w", m.Name, m.Value, err)
			}
			c.regex = re
		default:
			return nil, fmt.Errorf("%s: unknown match type %q: use %s or %s", m.Name, m.Type, ValueExact, ValueRegex)
		}
		if !containsName(out, c.name) {
			out = append(out, c)
		}
	}
	return out, nil
}

func containsName(conditions []valueCondition, name string) bool {
	for i := range conditions {
		if conditions[i].name == name {
			return true
		}
	}
	return false
}

// wholeRegexp compiles an RE2 expression that must match a whole value.
func wholeRegexp(expr string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(expr); err != nil {
		return nil, err // before the anchors, so that the message shows the user's text
	}
	return regexp.Compile(`\A(?:` + expr + `)\z`)
}

// preflightCarries says whether browsers put the field on a CORS preflight.
// Source: Fetch standard, CORS-preflight fetch and forbidden request-headers.
func preflightCarries(canonical string) bool {
	switch canonical {
	case "Accept", "Accept-Encoding", "Accept-Language", "Access-Control-Request-Headers",
		"Access-Control-Request-Method", "Connection", "Host", "Origin", "Referer", "User-Agent":
		return true
	}
	return strings.HasPrefix(canonical, "Sec-Fetch-")
}
