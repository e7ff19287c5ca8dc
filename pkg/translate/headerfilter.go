package translate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/routing"
)

// direction says whose headers a filter edits.
type direction int

const (
	requestDirection direction = iota
	responseDirection
)

// hopHeaders frame the message or belong to one connection; a filter that
// touched them could make the two ends disagree about where a message ends
// (RFC 9110 section 7.6.1, RFC 9112 section 6).
var hopHeaders = []string{
	"connection", "content-length", "expect", "http2-settings", "keep-alive", "proxy-connection",
	"te", "trailer", "transfer-encoding", "upgrade",
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+\\-.^_`|~]+$")

// headerFilter translates a header modifier. One name may be set, added or
// removed, not several of these; of several entries of one list with one name
// the first counts (Gateway API, HTTPHeaderFilter and HTTPHeader).
func (b *ruleBuilder) headerFilter(spec *gwapiv1.HTTPHeaderFilter, field string, dir direction) *routing.HeaderFilter {
	out := &routing.HeaderFilter{}
	action := map[string]string{} // by lower-case name
	use := func(name, act, at string) bool {
		if problem := checkHeaderName(name, dir); problem != "" {
			b.refuse(at, "%s", problem)
			return false
		}
		lower := strings.ToLower(name)
		switch action[lower] {
		case "":
			action[lower] = act
			return true
		case act:
			return false
		}
		b.refuse(at, "header %s is already in %s of this filter: keep one of the two", name, action[lower])
		return false
	}
	out.Set = b.headers(spec.Set, field+".set", func(name, at string) bool { return use(name, "set", at) })
	out.Add = b.headers(spec.Add, field+".add", func(name, at string) bool { return use(name, "add", at) })
	for i, name := range spec.Remove {
		if use(name, "remove", fmt.Sprintf("%s.remove[%d]", field, i)) {
			out.Remove = append(out.Remove, name)
		}
	}
	return out
}

func (b *ruleBuilder) headers(specs []gwapiv1.HTTPHeader, field string, use func(name, at string) bool) []routing.Header {
	var out []routing.Header
	for i, h := range specs {
		at := fmt.Sprintf("%s[%d]", field, i)
		if !use(string(h.Name), at+".name") {
			continue
		}
		if strings.ContainsFunc(h.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			b.refuse(at+".value", "the value of header %s holds a control character: remove it", h.Name)
			continue
		}
		out = append(out, routing.Header{Name: string(h.Name), Value: h.Value})
	}
	return out
}

// checkHeaderName finds what forbids a filter to touch a header; "" is nothing.
func checkHeaderName(name string, dir direction) string {
	switch lower := strings.ToLower(name); {
	case len(name) > 256 || !headerName.MatchString(name):
		return fmt.Sprintf("%q is no header name: use letters, digits and '-'", name)
	case slices.Contains(hopHeaders, lower):
		return fmt.Sprintf("header %s frames the message or belongs to one connection, and the gateway sets it itself: remove it from the filter", name)
	case lower == "host" && dir == requestDirection:
		return "a header filter cannot change Host: use a URLRewrite filter with hostname"
	}
	return ""
}
