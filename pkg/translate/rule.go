package translate

import (
	"fmt"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/routing"
)

// faultStatus answers the requests of a rule that cannot be served as written
// (Gateway API, HTTPRouteRule.filters).
const faultStatus = 500

// ruleBuilder translates one rule of a route.
type ruleBuilder struct {
	t     *translation
	route *routeState
	field string // path of the rule
	spec  gwapiv1.HTTPRouteRule

	invalid     []finding // values that cannot be used
	unmatchable bool      // a match cannot be used
}

// refuse records a value that cannot be used.
func (b *ruleBuilder) refuse(field, format string, args ...any) {
	b.invalid = append(b.invalid, finding{
		reason:  string(gwapiv1.RouteReasonUnsupportedValue),
		field:   field,
		message: fmt.Sprintf(format, args...),
	})
}

func (b *ruleBuilder) build() routing.Rule {
	rule := routing.Rule{
		Name:    deref(b.spec.Name, ""),
		Matches: b.matches(),
	}
	b.unmatchable = len(b.invalid) > 0
	rule.Filters = b.filters(b.spec.Filters, b.field+".filters", ruleFilters)
	b.checkFilterCombination()
	rule.Backends = b.backends()
	rule.RequestTimeout, rule.BackendTimeout = b.timeouts()
	rule.Retry = b.retry()
	if b.spec.SessionPersistence != nil { //nolint:staticcheck // refused as long as the API has the field
		b.refuse(b.field+".sessionPersistence", "not supported: annotate the Model or Service with flexinfer.ai/routing: session-affinity")
	}
	switch {
	case len(b.invalid) > 0:
		return routing.Rule{Name: rule.Name, Matches: rule.Matches, Fault: faultStatus}
	case b.needsUnknownFilter():
		rule.Fault = faultStatus
	}
	return rule
}

// backends translates the backendRefs; one that does not resolve keeps its
// weight, and its share of requests gets a 500.
func (b *ruleBuilder) backends() []routing.BackendRef {
	var out []routing.BackendRef
	for i, ref := range b.spec.BackendRefs {
		field := fmt.Sprintf("%s.backendRefs[%d]", b.field, i)
		weight := int32(1)
		if ref.Weight != nil {
			weight = *ref.Weight
		}
		if weight < 0 {
			b.refuse(field+".weight", "%d is negative: use 0 to 1000000", weight)
			weight = 0
		}
		out = append(out, routing.BackendRef{
			Backend: b.t.resolve(b.route.name, ref.BackendObjectReference, field, &b.route.refs),
			Weight:  weight,
			Filters: b.filters(ref.Filters, field+".filters", backendFilters),
		})
	}
	return out
}

// checkFilterCombination refuses what answers and forwards at the same time.
func (b *ruleBuilder) checkFilterCombination() {
	var redirect, rewrite bool
	for _, f := range b.spec.Filters {
		redirect = redirect || f.Type == gwapiv1.HTTPRouteFilterRequestRedirect
		rewrite = rewrite || f.Type == gwapiv1.HTTPRouteFilterURLRewrite
	}
	if redirect && rewrite {
		b.invalid = append(b.invalid, finding{
			reason:  string(gwapiv1.RouteReasonIncompatibleFilters),
			field:   b.field + ".filters",
			message: "RequestRedirect and URLRewrite exclude each other: remove one of them",
		})
	}
	if redirect && len(b.spec.BackendRefs) > 0 {
		b.invalid = append(b.invalid, finding{
			reason:  string(gwapiv1.RouteReasonIncompatibleFilters),
			field:   b.field + ".filters",
			message: "a rule that redirects never reaches its backendRefs: remove the RequestRedirect filter or the backendRefs",
		})
	}
}
