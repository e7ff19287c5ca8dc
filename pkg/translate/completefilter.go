package translate

import (
	"fmt"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// filterTypes are the filter types of the Gateway API's schema.
var filterTypes = []gwapiv1.HTTPRouteFilterType{
	gwapiv1.HTTPRouteFilterRequestHeaderModifier,
	gwapiv1.HTTPRouteFilterResponseHeaderModifier,
	gwapiv1.HTTPRouteFilterRequestMirror,
	gwapiv1.HTTPRouteFilterRequestRedirect,
	gwapiv1.HTTPRouteFilterURLRewrite,
	gwapiv1.HTTPRouteFilterCORS,
	gwapiv1.HTTPRouteFilterExternalAuth,
	gwapiv1.HTTPRouteFilterExtensionRef,
}

func completeFilters(filters []gwapiv1.HTTPRouteFilter, field string, v *validator) {
	v.atMost(field, len(filters), 16)
	for i := range filters {
		completeFilter(&filters[i], fmt.Sprintf("%s[%d]", field, i), v)
	}
}

// completeFilter checks that exactly the member of the filter's type is set.
func completeFilter(f *gwapiv1.HTTPRouteFilter, field string, v *validator) {
	oneOf(v, field+".type", f.Type, filterTypes...)
	members := []struct {
		kind gwapiv1.HTTPRouteFilterType
		name string
		set  bool
	}{
		{gwapiv1.HTTPRouteFilterRequestHeaderModifier, "requestHeaderModifier", f.RequestHeaderModifier != nil},
		{gwapiv1.HTTPRouteFilterResponseHeaderModifier, "responseHeaderModifier", f.ResponseHeaderModifier != nil},
		{gwapiv1.HTTPRouteFilterRequestMirror, "requestMirror", f.RequestMirror != nil},
		{gwapiv1.HTTPRouteFilterRequestRedirect, "requestRedirect", f.RequestRedirect != nil},
		{gwapiv1.HTTPRouteFilterURLRewrite, "urlRewrite", f.URLRewrite != nil},
		{gwapiv1.HTTPRouteFilterCORS, "cors", f.CORS != nil},
		{gwapiv1.HTTPRouteFilterExternalAuth, "externalAuth", f.ExternalAuth != nil},
		{gwapiv1.HTTPRouteFilterExtensionRef, "extensionRef", f.ExtensionRef != nil},
	}
	for _, m := range members {
		switch {
		case m.set && f.Type != m.kind:
			v.refuse(field+"."+m.name, "does not go with type %s: remove it or use type %s", f.Type, m.kind)
		case !m.set && f.Type == m.kind:
			v.refuse(field+"."+m.name, "missing: a filter of type %s needs it", f.Type)
		}
	}
	if f.RequestHeaderModifier != nil {
		checkHeaderModifier(f.RequestHeaderModifier, field+".requestHeaderModifier", v)
	}
	if f.ResponseHeaderModifier != nil {
		checkHeaderModifier(f.ResponseHeaderModifier, field+".responseHeaderModifier", v)
	}
	if m := f.RequestMirror; m != nil {
		completeBackendRef(&m.BackendRef, field+".requestMirror.backendRef", v)
		if m.Fraction != nil && m.Fraction.Denominator == nil {
			m.Fraction.Denominator = new(int32(100))
		}
	}
	if r := f.RequestRedirect; r != nil && r.StatusCode == nil {
		r.StatusCode = new(defaultRedirectStatus)
	}
	if c := f.CORS; c != nil && c.MaxAge == 0 {
		c.MaxAge = int32(defaultCORSMaxAge.Seconds())
	}
}

func checkHeaderModifier(h *gwapiv1.HTTPHeaderFilter, field string, v *validator) {
	for _, list := range []struct {
		name    string
		headers []gwapiv1.HTTPHeader
	}{{"set", h.Set}, {"add", h.Add}} {
		at := field + "." + list.name
		v.atMost(at, len(list.headers), 16)
		var names []gwapiv1.HTTPHeaderName
		for i, header := range list.headers {
			v.headerName(fmt.Sprintf("%s[%d].name", at, i), string(header.Name))
			v.textLength(fmt.Sprintf("%s[%d].value", at, i), header.Value, 1, 4096)
			names = append(names, header.Name)
		}
		unique(v, at, names)
	}
	v.atMost(field+".remove", len(h.Remove), 16)
	unique(v, field+".remove", h.Remove)
}
