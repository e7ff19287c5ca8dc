package translate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/routing"
)

// routeState is one HTTPRoute and what became of it.
type routeState struct {
	obj  *gwapiv1.HTTPRoute
	name types.NamespacedName

	hostnames []string // lower-case, valid, each once
	rules     []routing.Rule
	refs      refs
	invalid   []finding // values that cannot be used, with reasons of Accepted
	oversize  *finding  // why nothing but its parents is read
	// broken are the indexes of the rules with invalid values, in order.
	broken []int
	// instructions are those of the regular expressions so far.
	instructions int

	parents []*parentState
}

// allBroken reports whether no rule of the route can be used.
func (r *routeState) allBroken() bool {
	return len(r.broken) > 0 && len(r.broken) == len(r.obj.Spec.Rules)
}

// translateRoutes translates every HTTPRoute and attaches it to its parents.
func (t *translation) translateRoutes() {
	for _, obj := range t.in.routes {
		r := &routeState{
			obj:       obj,
			name:      nameOf(obj),
			hostnames: readHostnames(obj.Spec.Hostnames),
			refs:      refs{keys: map[string]bool{}},
			oversize:  refuseOversize(obj),
		}
		if r.oversize == nil {
			t.translateRules(r)
		}
		t.attach(r)
		t.routes = append(t.routes, r)
		t.warnAll("HTTPRoute", r.name, r.invalid)
		t.warnAll("HTTPRoute", r.name, r.refs.found)
	}
}

// translateRules translates the rules, keeping their order. A rule with an
// invalid value never harms its siblings. Where its matches are sound it stays,
// and its requests get a 500: leaving it out would hand them to a less specific
// rule, which may lack just the filter that failed. Without sound matches it is
// left out.
func (t *translation) translateRules(r *routeState) {
	for i, spec := range r.obj.Spec.Rules {
		field := fmt.Sprintf("spec.rules[%d]", i)
		b := &ruleBuilder{t: t, route: r, field: field, spec: spec}
		rule := b.build()
		if len(b.invalid) > 0 {
			r.invalid = append(r.invalid, b.invalid...)
			r.broken = append(r.broken, i)
		}
		if b.unmatchable {
			continue
		}
		r.rules = append(r.rules, rule)
	}
}
