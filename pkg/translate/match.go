package translate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/routing"
)

// matches translates the rule's matches; none means every path.
func (b *ruleBuilder) matches() []routing.Match {
	var out []routing.Match
	for i, m := range b.spec.Matches {
		field := fmt.Sprintf("%s.matches[%d]", b.field, i)
		match := routing.Match{PathType: routing.PathPrefix, Path: "/"}
		if m.Path != nil {
			match.PathType = routing.PathType(deref(m.Path.Type, string(gwapiv1.PathMatchPathPrefix)))
			match.Path = deref(m.Path.Value, "/")
			b.checkPath(match, field+".path")
		}
		if m.Method != nil {
			match.Method = string(*m.Method)
			if !slices.Contains(httpMethods, match.Method) {
				b.refuse(field+".method", "%q is not known: use one of %s", match.Method, strings.Join(httpMethods, ", "))
			}
		}
		for j, h := range m.Headers {
			match.Headers = b.addMatch(match.Headers, deref(h.Type, string(routing.ValueExact)), string(h.Name), h.Value,
				fmt.Sprintf("%s.headers[%d]", field, j), strings.EqualFold)
		}
		for j, q := range m.QueryParams {
			match.Query = b.addMatch(match.Query, deref(q.Type, string(routing.ValueExact)), string(q.Name), q.Value,
				fmt.Sprintf("%s.queryParams[%d]", field, j), func(a, b string) bool { return a == b })
		}
		out = append(out, match)
	}
	return out
}

// httpMethods are the methods that the Gateway API knows.
var httpMethods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// addMatch adds one header or query match. Of several with one name the first
// counts (Gateway API, HTTPHeaderMatch.name).
func (b *ruleBuilder) addMatch(list []routing.ValueMatch, kind, name, value, field string, same func(a, b string) bool) []routing.ValueMatch {
	if slices.ContainsFunc(list, func(m routing.ValueMatch) bool { return same(m.Name, name) }) {
		return list
	}
	if !headerName.MatchString(name) {
		b.refuse(field+".name", "%q is no name: use letters, digits and '-'", name)
	}
	switch routing.ValueType(kind) {
	case routing.ValueExact:
	case routing.ValueRegex:
		if problem := b.regex(value); problem != "" {
			b.refuse(field+".value", "%s", problem)
		}
	default:
		b.refuse(field+".type", "%q is not known: use Exact or RegularExpression", kind)
	}
	return append(list, routing.ValueMatch{Type: routing.ValueType(kind), Name: name, Value: value})
}

func (b *ruleBuilder) checkPath(m routing.Match, field string) {
	switch m.PathType {
	case routing.PathExact, routing.PathPrefix:
		if problem := checkPathValue(m.Path); problem != "" {
			b.refuse(field+".value", "%s", problem)
		}
	case routing.PathRegex:
		if problem := b.regex(m.Path); problem != "" {
			b.refuse(field+".value", "%s", problem)
		}
	default:
		b.refuse(field+".type", "%q is not known: use Exact, PathPrefix or RegularExpression", m.PathType)
	}
}

var pathCharacters = regexp.MustCompile(`^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})+$`)

// maxPathLength bounds match and replacement paths, in bytes (Gateway API).
const maxPathLength = 1024

// plainDots decodes the dots of a path, as they are before paths are compared.
var plainDots = strings.NewReplacer("%2e", ".", "%2E", ".")

// checkPathValue finds what the Gateway API forbids in an Exact or PathPrefix
// path, however its dots are spelt, and what no request can hold; "" is nothing.
func checkPathValue(path string) string {
	if problem := checkPathSyntax(path); problem != "" {
		return problem
	}
	plain := plainDots.Replace(path)
	for _, bad := range []string{"//", "/./", "/../", "%2f", "%2F", "%00"} {
		if strings.Contains(plain, bad) {
			return fmt.Sprintf("path %q contains %q, which no request path has after cleaning: remove it", path, bad)
		}
	}
	for _, bad := range []string{"/.", "/.."} {
		if strings.HasSuffix(plain, bad) {
			return fmt.Sprintf("path %q ends with %q, which no request path does after cleaning: remove it", path, bad)
		}
	}
	return ""
}

// checkPathSyntax finds what cannot stand in the path of a request target.
func checkPathSyntax(path string) string {
	switch {
	case !strings.HasPrefix(path, "/"):
		return fmt.Sprintf("path %q does not start with '/': add it", path)
	case len(path) > maxPathLength:
		return fmt.Sprintf("path is %d bytes long: use at most %d", len(path), maxPathLength)
	case !pathCharacters.MatchString(path):
		return fmt.Sprintf("path %q has characters that a URL path cannot hold: percent-encode them", path)
	}
	return ""
}
