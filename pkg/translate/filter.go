package translate

import (
	"fmt"
	"slices"
	"strings"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/routing"
)

// ruleFilters and backendFilters are the filter types that work on a rule and
// on a backendRef. A redirect and a CORS policy answer before a backend is
// chosen, so they cannot hang on one.
var (
	ruleFilters = []gwapiv1.HTTPRouteFilterType{
		gwapiv1.HTTPRouteFilterRequestHeaderModifier,
		gwapiv1.HTTPRouteFilterResponseHeaderModifier,
		gwapiv1.HTTPRouteFilterRequestRedirect,
		gwapiv1.HTTPRouteFilterURLRewrite,
		gwapiv1.HTTPRouteFilterRequestMirror,
		gwapiv1.HTTPRouteFilterCORS,
	}
	backendFilters = []gwapiv1.HTTPRouteFilterType{
		gwapiv1.HTTPRouteFilterRequestHeaderModifier,
		gwapiv1.HTTPRouteFilterResponseHeaderModifier,
		gwapiv1.HTTPRouteFilterURLRewrite,
		gwapiv1.HTTPRouteFilterRequestMirror,
	}
)

// filters translates a list of filters in its order. What cannot be used is
// refused or found and left out; the rule answers with an error then.
func (b *ruleBuilder) filters(specs []gwapiv1.HTTPRouteFilter, field string, known []gwapiv1.HTTPRouteFilterType) []routing.Filter {
	var out []routing.Filter
	seen := map[gwapiv1.HTTPRouteFilterType]bool{}
	for i, spec := range specs {
		at := fmt.Sprintf("%s[%d]", field, i)
		if seen[spec.Type] && spec.Type != gwapiv1.HTTPRouteFilterRequestMirror {
			b.refuse(at, "a second %s filter: merge it into the first one", spec.Type)
			continue
		}
		seen[spec.Type] = true
		switch {
		case spec.Type == gwapiv1.HTTPRouteFilterExtensionRef:
			b.findExtension(spec, at)
		case !slices.Contains(known, spec.Type):
			b.refuse(at+".type", "filters of type %s do not work here: use %s", spec.Type, joinTypes(known))
		default:
			if f, ok := b.filter(spec, at); ok {
				out = append(out, f)
			}
		}
	}
	return out
}

// filter translates one filter of a known type.
func (b *ruleBuilder) filter(spec gwapiv1.HTTPRouteFilter, field string) (f routing.Filter, ok bool) {
	switch {
	case spec.Type == gwapiv1.HTTPRouteFilterRequestHeaderModifier && spec.RequestHeaderModifier != nil:
		f.RequestHeaders = b.headerFilter(spec.RequestHeaderModifier, field+".requestHeaderModifier", requestDirection)
		return f, true
	case spec.Type == gwapiv1.HTTPRouteFilterResponseHeaderModifier && spec.ResponseHeaderModifier != nil:
		f.ResponseHeaders = b.headerFilter(spec.ResponseHeaderModifier, field+".responseHeaderModifier", responseDirection)
		return f, true
	case spec.Type == gwapiv1.HTTPRouteFilterRequestRedirect && spec.RequestRedirect != nil:
		f.Redirect = b.redirect(spec.RequestRedirect, field+".requestRedirect")
		return f, true
	case spec.Type == gwapiv1.HTTPRouteFilterURLRewrite && spec.URLRewrite != nil:
		f.Rewrite = b.rewrite(spec.URLRewrite, field+".urlRewrite")
		return f, true
	case spec.Type == gwapiv1.HTTPRouteFilterRequestMirror && spec.RequestMirror != nil:
		f.Mirror = b.mirror(spec.RequestMirror, field+".requestMirror")
		return f, f.Mirror != nil
	case spec.Type == gwapiv1.HTTPRouteFilterCORS && spec.CORS != nil:
		f.CORS = b.cors(spec.CORS, field+".cors")
		return f, true
	}
	b.refuse(field, "the %s filter lacks its settings: add them under the field of its type", spec.Type)
	return f, false
}

// findExtension finds a custom filter, of which none is known: the reference
// does not resolve, and the filter must not be skipped.
func (b *ruleBuilder) findExtension(spec gwapiv1.HTTPRouteFilter, field string) {
	name := "(none)"
	if ref := spec.ExtensionRef; ref != nil {
		name = groupKind(string(ref.Group), string(ref.Kind)) + " " + string(ref.Name)
	}
	b.route.refs.found = append(b.route.refs.found, finding{
		reason:  string(gwapiv1.RouteReasonInvalidKind),
		field:   field + ".extensionRef",
		message: fmt.Sprintf("no filters of kind %s are known, so requests of this rule get an error: remove the filter", name),
	})
}

// needsUnknownFilter reports whether the rule or one of its backendRefs has a
// custom filter.
func (b *ruleBuilder) needsUnknownFilter() bool {
	custom := func(f gwapiv1.HTTPRouteFilter) bool { return f.Type == gwapiv1.HTTPRouteFilterExtensionRef }
	return slices.ContainsFunc(b.spec.Filters, custom) ||
		slices.ContainsFunc(b.spec.BackendRefs, func(r gwapiv1.HTTPBackendRef) bool { return slices.ContainsFunc(r.Filters, custom) })
}

func joinTypes(types []gwapiv1.HTTPRouteFilterType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
