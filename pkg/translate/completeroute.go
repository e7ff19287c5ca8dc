package translate

import (
	"fmt"
	"slices"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

func completeHTTPRoute(r *gwapiv1.HTTPRoute, v *validator) {
	v.atMost("spec.parentRefs", len(r.Spec.ParentRefs), 32)
	for i := range r.Spec.ParentRefs {
		completeParentRef(&r.Spec.ParentRefs[i], fmt.Sprintf("spec.parentRefs[%d]", i), v)
	}
	v.atMost("spec.hostnames", len(r.Spec.Hostnames), 16)
	for i, h := range r.Spec.Hostnames {
		v.hostname(fmt.Sprintf("spec.hostnames[%d]", i), string(h))
	}
	if len(r.Spec.Rules) == 0 {
		r.Spec.Rules = []gwapiv1.HTTPRouteRule{{}}
	}
	v.atMost("spec.rules", len(r.Spec.Rules), 16)
	var names []string
	total := 0
	for i := range r.Spec.Rules {
		rule := &r.Spec.Rules[i]
		field := fmt.Sprintf("spec.rules[%d]", i)
		completeRule(rule, field, v)
		total += len(rule.Matches)
		if name := deref(rule.Name, ""); name != "" {
			v.sectionName(field+".name", name)
			if slices.Contains(names, name) {
				v.refuse(field+".name", "rule %s exists already: choose another name", name)
			}
			names = append(names, name)
		}
	}
	if total > 128 {
		v.refuse("spec.rules", "have %d matches together: use at most 128, or split the route", total)
	}
}

func completeParentRef(p *gwapiv1.ParentReference, field string, v *validator) {
	if p.Group == nil {
		p.Group = new(gwapiv1.Group(gwapiv1.GroupName))
	}
	if p.Kind == nil {
		p.Kind = new(gwapiv1.Kind("Gateway"))
	}
	v.name(field+".name", string(p.Name))
	namespace(v, field+".namespace", p.Namespace)
	optionalPort(v, field+".port", p.Port)
}

func completeRule(r *gwapiv1.HTTPRouteRule, field string, v *validator) {
	if len(r.Matches) == 0 {
		r.Matches = []gwapiv1.HTTPRouteMatch{{}}
	}
	v.atMost(field+".matches", len(r.Matches), 64)
	for i := range r.Matches {
		completeMatch(&r.Matches[i], fmt.Sprintf("%s.matches[%d]", field, i), v)
	}
	completeFilters(r.Filters, field+".filters", v)
	v.atMost(field+".backendRefs", len(r.BackendRefs), 16)
	for i := range r.BackendRefs {
		ref := &r.BackendRefs[i]
		at := fmt.Sprintf("%s.backendRefs[%d]", field, i)
		completeBackendRef(&ref.BackendObjectReference, at, v)
		if ref.Weight == nil {
			ref.Weight = new(int32(1))
		}
		if *ref.Weight < 0 || *ref.Weight > 1_000_000 {
			v.refuse(at+".weight", "%d is out of range: use 0 to 1000000", *ref.Weight)
		}
		completeFilters(ref.Filters, at+".filters", v)
	}
	completeTimeouts(r, field, v)
}

func completeTimeouts(r *gwapiv1.HTTPRouteRule, field string, v *validator) {
	check := func(at string, d *gwapiv1.Duration) {
		if d == nil {
			return
		}
		if _, ok := parseDuration(string(*d)); !ok {
			v.found = append(v.found, invalidDuration(at, string(*d)))
		}
	}
	if t := r.Timeouts; t != nil {
		check(field+".timeouts.request", t.Request)
		check(field+".timeouts.backendRequest", t.BackendRequest)
	}
	if retry := r.Retry; retry != nil {
		check(field+".retry.backoff", retry.Backoff)
		if retry.Attempts == nil {
			retry.Attempts = new(defaultRetryAttempts)
		}
	}
}

func completeMatch(m *gwapiv1.HTTPRouteMatch, field string, v *validator) {
	if m.Path == nil {
		m.Path = &gwapiv1.HTTPPathMatch{}
	}
	if m.Path.Type == nil {
		m.Path.Type = new(gwapiv1.PathMatchPathPrefix)
	}
	if m.Path.Value == nil {
		m.Path.Value = new("/")
	}
	oneOf(v, field+".path.type", *m.Path.Type, gwapiv1.PathMatchExact, gwapiv1.PathMatchPathPrefix, gwapiv1.PathMatchRegularExpression)
	if *m.Path.Type != gwapiv1.PathMatchRegularExpression {
		if problem := checkPathValue(*m.Path.Value); problem != "" {
			v.refuse(field+".path.value", "%s", problem)
		}
	}
	if m.Method != nil {
		oneOf(v, field+".method", string(*m.Method), httpMethods...)
	}
	v.atMost(field+".headers", len(m.Headers), 16)
	for i := range m.Headers {
		h := &m.Headers[i]
		at := fmt.Sprintf("%s.headers[%d]", field, i)
		if h.Type == nil {
			h.Type = new(gwapiv1.HeaderMatchExact)
		}
		oneOf(v, at+".type", *h.Type, gwapiv1.HeaderMatchExact, gwapiv1.HeaderMatchRegularExpression)
		v.headerName(at+".name", string(h.Name))
		v.textLength(at+".value", h.Value, 1, 4096)
	}
	v.atMost(field+".queryParams", len(m.QueryParams), 16)
	for i := range m.QueryParams {
		q := &m.QueryParams[i]
		at := fmt.Sprintf("%s.queryParams[%d]", field, i)
		if q.Type == nil {
			q.Type = new(gwapiv1.QueryParamMatchExact)
		}
		oneOf(v, at+".type", *q.Type, gwapiv1.QueryParamMatchExact, gwapiv1.QueryParamMatchRegularExpression)
		v.headerName(at+".name", string(q.Name))
		v.textLength(at+".value", q.Value, 1, 1024)
	}
}

func (v *validator) headerName(field, name string) {
	if len(name) > 256 || !headerName.MatchString(name) {
		v.refuse(field, "%q is no header name: use letters, digits and '-'", name)
	}
}

func completeBackendRef(r *gwapiv1.BackendObjectReference, field string, v *validator) {
	if r.Group == nil {
		r.Group = new(gwapiv1.Group(""))
	}
	if r.Kind == nil {
		r.Kind = new(gwapiv1.Kind("Service"))
	}
	v.name(field+".name", string(r.Name))
	namespace(v, field+".namespace", r.Namespace)
	optionalPort(v, field+".port", r.Port)
	if *r.Group == "" && *r.Kind == "Service" && r.Port == nil {
		v.refuse(field+".port", "missing: a reference to a Service needs the port")
	}
}
