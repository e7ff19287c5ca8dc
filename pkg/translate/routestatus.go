package translate

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

var routeConditions = []string{
	string(gwapiv1.RouteConditionAccepted),
	string(gwapiv1.RouteConditionResolvedRefs),
	string(gwapiv1.RouteConditionPartiallyInvalid),
}

// maxParents bounds status.parents of a route (Gateway API).
const maxParents = 32

// routeStatuses are the statuses of the HTTPRoutes that have a parent of ours,
// or still an entry of ours for one.
func (t *translation) routeStatuses() []ObjectStatus[gwapiv1.HTTPRouteStatus] {
	var statuses []ObjectStatus[gwapiv1.HTTPRouteStatus]
	for _, r := range t.routes {
		held := r.obj.Status.Parents
		if len(r.parents) == 0 && !slices.ContainsFunc(held, t.ownsParent) {
			continue
		}
		var status gwapiv1.HTTPRouteStatus
		status.Parents = t.mergeParents(r, held)
		statuses = append(statuses, ObjectStatus[gwapiv1.HTTPRouteStatus]{Name: r.name, Generation: r.obj.Generation, Status: status})
	}
	return statuses
}

func (t *translation) ownsParent(p gwapiv1.RouteParentStatus) bool {
	return p.ControllerName == t.opts.controllerName()
}

// mergeParents puts our entries into the list that the route holds. Entries of
// other controllers stay as they are and where they are; ours for parents that
// the route no longer names go away. Where theirs leave no room for all of ours,
// the last of ours are left out: a longer list could not be written at all.
func (t *translation) mergeParents(r *routeState, held []gwapiv1.RouteParentStatus) []gwapiv1.RouteParentStatus {
	out := make([]gwapiv1.RouteParentStatus, 0, len(held)+len(r.parents))
	merged := map[*parentState]bool{}
	for _, h := range held {
		if !t.ownsParent(h) {
			out = append(out, *h.DeepCopy())
			continue
		}
		i := slices.IndexFunc(r.parents, func(p *parentState) bool {
			return !merged[p] && sameParentRef(p.ref, h.ParentRef, r.name.Namespace)
		})
		if i >= 0 {
			merged[r.parents[i]] = true
			out = append(out, t.parentStatus(r, r.parents[i], h.Conditions))
		}
	}
	for _, p := range r.parents {
		if !merged[p] {
			out = append(out, t.parentStatus(r, p, nil))
		}
	}
	return out[:min(len(out), maxParents)]
}

func (t *translation) parentStatus(r *routeState, p *parentState, held []metav1.Condition) gwapiv1.RouteParentStatus {
	ref := *p.ref.DeepCopy()
	if ref.Group == nil {
		ref.Group = new(gwapiv1.Group(gwapiv1.GroupName))
	}
	if ref.Kind == nil {
		ref.Kind = new(gwapiv1.Kind("Gateway"))
	}
	return gwapiv1.RouteParentStatus{
		ParentRef:      ref,
		ControllerName: t.opts.controllerName(),
		Conditions:     mergeConditions(held, r.conditions(p), routeConditions, r.obj.Generation, t.opts.Now),
	}
}

func (r *routeState) conditions(p *parentState) []metav1.Condition {
	if r.oversize != nil { // its references were not read
		return []metav1.Condition{r.acceptedCondition(p)}
	}
	list := []metav1.Condition{r.acceptedCondition(p), r.resolvedCondition()}
	if p.refused == nil && len(r.broken) > 0 {
		list = append(list, newCondition(gwapiv1.RouteConditionPartiallyInvalid, true, r.invalid[0].reason,
			fmt.Sprintf("Dropped Rule(s) %s: %s", joinInts(r.broken), describe(r.invalid))))
	}
	return list
}

func (r *routeState) acceptedCondition(p *parentState) metav1.Condition {
	if p.refused != nil {
		return newCondition(gwapiv1.RouteConditionAccepted, false, p.refused.reason, p.refused.String())
	}
	message := "The route is attached to " + describeBound(p.bound)
	if idle := idleListeners(p); len(idle) > 0 {
		message += fmt.Sprintf("; no traffic arrives on %s, which the Gateway does not serve: see its status", strings.Join(idle, ", "))
	}
	return newCondition(gwapiv1.RouteConditionAccepted, true, gwapiv1.RouteReasonAccepted, message)
}

// resolvedCondition tells whether all references resolved, and of each Model
// reference whether it was a label or a Model.
func (r *routeState) resolvedCondition() metav1.Condition {
	notes := describeNotes(r.refs.notes)
	if len(r.refs.found) == 0 {
		return newCondition(gwapiv1.RouteConditionResolvedRefs, true, gwapiv1.RouteReasonResolvedRefs, "All references resolved"+notes)
	}
	return newCondition(gwapiv1.RouteConditionResolvedRefs, false, r.refs.found[0].reason, describe(r.refs.found)+notes)
}

func describeNotes(notes []string) string {
	s := ""
	for i, n := range notes {
		if i == maxFindings {
			return s + fmt.Sprintf("; and %d more", len(notes)-maxFindings)
		}
		s += "; " + n
	}
	return s
}

func describeBound(bound []binding) string {
	names := make([]string, len(bound))
	for i, b := range bound {
		names[i] = string(b.listener.spec.Name)
	}
	if len(names) == 1 {
		return "listener " + names[0]
	}
	return "listeners " + strings.Join(names, ", ")
}

// idleListeners are the bound listeners that take no traffic.
func idleListeners(p *parentState) []string {
	var names []string
	for _, b := range p.bound {
		if p.gateway.refused != nil || !b.listener.serves() {
			names = append(names, string(b.listener.spec.Name))
		}
	}
	return names
}

func joinInts(list []int) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = fmt.Sprint(n)
	}
	return strings.Join(parts, ", ")
}
