package translate

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

var gatewayConditions = []string{
	string(gwapiv1.GatewayConditionAccepted),
	string(gwapiv1.GatewayConditionProgrammed),
	string(gwapiv1.GatewayConditionResolvedRefs),
	string(gwapiv1.GatewayConditionInsecureFrontendValidationMode),
}

var listenerConditions = []string{
	string(gwapiv1.ListenerConditionAccepted),
	string(gwapiv1.ListenerConditionProgrammed),
	string(gwapiv1.ListenerConditionResolvedRefs),
	string(gwapiv1.ListenerConditionConflicted),
}

// maxAddresses bounds status.addresses of a Gateway (Gateway API).
const maxAddresses = 16

// gatewayStatuses are the statuses of the Gateways of our classes.
func (t *translation) gatewayStatuses() []ObjectStatus[gwapiv1.GatewayStatus] {
	var statuses []ObjectStatus[gwapiv1.GatewayStatus]
	for _, obj := range t.in.gateways {
		if g := t.gateways[nameOf(obj)]; g != nil {
			statuses = append(statuses, ObjectStatus[gwapiv1.GatewayStatus]{
				Name: g.name, Generation: obj.Generation, Status: t.gatewayStatus(g),
			})
		}
	}
	return statuses
}

func (t *translation) gatewayStatus(g *gatewayState) gwapiv1.GatewayStatus {
	held := g.obj.Status
	status := gwapiv1.GatewayStatus{
		Addresses:            held.DeepCopy().Addresses,
		Conditions:           mergeConditions(held.Conditions, t.gatewayConditions(g), gatewayConditions, g.obj.Generation, t.opts.Now),
		AttachedListenerSets: new(int32(0)),
	}
	if t.opts.Addresses != nil {
		status.Addresses = g.addresses[:min(len(g.addresses), maxAddresses)]
	}
	for _, l := range g.listeners {
		status.Listeners = append(status.Listeners, t.listenerStatus(g, l))
	}
	return status
}

func (t *translation) gatewayConditions(g *gatewayState) []metav1.Condition {
	accepted := g.acceptedCondition()
	programmed := newCondition(gwapiv1.GatewayConditionProgrammed, true, gwapiv1.GatewayReasonProgrammed, "The data plane serves this generation")
	pending, isPending := t.opts.Pending[g.name]
	switch {
	case accepted.Status != metav1.ConditionTrue:
		programmed = newCondition(gwapiv1.GatewayConditionProgrammed, false, gwapiv1.GatewayReasonInvalid, "Nothing is served, because the Gateway is not accepted")
	case g.addressing != nil:
		message := g.addressing.String()
		if isPending { // perhaps the reason why there is no address
			message += "; " + pending
		}
		programmed = newCondition(gwapiv1.GatewayConditionProgrammed, false, g.addressing.reason, message)
	case isPending:
		programmed = newCondition(gwapiv1.GatewayConditionProgrammed, false, gwapiv1.GatewayReasonPending, pending)
	}
	return []metav1.Condition{accepted, programmed}
}

// acceptedCondition is the Gateway's: refused as a whole, or with as many
// listeners as are accepted.
func (g *gatewayState) acceptedCondition() metav1.Condition {
	if g.refused != nil {
		return newCondition(gwapiv1.GatewayConditionAccepted, false, g.refused.reason, g.refused.String())
	}
	var problems []finding
	for _, l := range g.listeners {
		for _, f := range []*finding{l.refused, l.conflict} {
			if f != nil {
				problems = append(problems, finding{field: "listener " + string(l.spec.Name), message: f.message})
			}
		}
	}
	switch {
	case len(problems) == 0:
		return newCondition(gwapiv1.GatewayConditionAccepted, true, gwapiv1.GatewayReasonAccepted, "All listeners are accepted")
	case g.accepted():
		return newCondition(gwapiv1.GatewayConditionAccepted, true, gwapiv1.GatewayReasonListenersNotValid, "Some listeners are not accepted: "+describe(problems))
	}
	return newCondition(gwapiv1.GatewayConditionAccepted, false, gwapiv1.GatewayReasonListenersNotValid, "No listener is accepted: "+describe(problems))
}

func (t *translation) listenerStatus(g *gatewayState, l *listenerState) gwapiv1.ListenerStatus {
	var held []metav1.Condition
	if i := slices.IndexFunc(g.obj.Status.Listeners, func(s gwapiv1.ListenerStatus) bool { return s.Name == l.spec.Name }); i >= 0 {
		held = g.obj.Status.Listeners[i].Conditions
	}
	kinds := make([]gwapiv1.RouteGroupKind, 0, len(l.kinds))
	for _, k := range l.kinds {
		kinds = append(kinds, gwapiv1.RouteGroupKind{Group: new(gwapiv1.Group(gwapiv1.GroupName)), Kind: k})
	}
	return gwapiv1.ListenerStatus{
		Name:           l.spec.Name,
		SupportedKinds: kinds,
		AttachedRoutes: l.attached,
		Conditions:     mergeConditions(held, t.listenerConditions(g, l), listenerConditions, g.obj.Generation, t.opts.Now),
	}
}

func (t *translation) listenerConditions(g *gatewayState, l *listenerState) []metav1.Condition {
	accepted := newCondition(gwapiv1.ListenerConditionAccepted, true, gwapiv1.ListenerReasonAccepted, "The listener is accepted")
	conflicted := newCondition(gwapiv1.ListenerConditionConflicted, false, gwapiv1.ListenerReasonNoConflicts, "No other listener conflicts")
	if f := l.conflict; f != nil {
		accepted = newCondition(gwapiv1.ListenerConditionAccepted, false, f.reason, f.String())
		conflicted = newCondition(gwapiv1.ListenerConditionConflicted, true, f.reason, f.String())
	}
	if f := l.refused; f != nil {
		accepted = newCondition(gwapiv1.ListenerConditionAccepted, false, f.reason, f.String())
	}
	resolved := newCondition(gwapiv1.ListenerConditionResolvedRefs, true, gwapiv1.ListenerReasonResolvedRefs, "All references resolved")
	if len(l.unresolved) > 0 {
		resolved = newCondition(gwapiv1.ListenerConditionResolvedRefs, false, l.unresolved[0].reason, describe(l.unresolved))
	}
	return []metav1.Condition{accepted, t.programmedListener(g, l), resolved, conflicted}
}

func (t *translation) programmedListener(g *gatewayState, l *listenerState) metav1.Condition {
	no := func(reason gwapiv1.ListenerConditionReason, message string) metav1.Condition {
		return newCondition(gwapiv1.ListenerConditionProgrammed, false, reason, message)
	}
	pending, isPending := t.opts.Pending[g.name]
	switch {
	case g.refused != nil:
		return no(gwapiv1.ListenerReasonInvalid, "Nothing is served, because the Gateway is not accepted")
	case l.conflict != nil:
		return no(gwapiv1.ListenerConditionReason(l.conflict.reason), "Nothing is served, because the listener conflicts with another one")
	case !l.accepted():
		return no(gwapiv1.ListenerReasonInvalid, "Nothing is served, because the listener is not accepted")
	case l.unserved != nil:
		return no(gwapiv1.ListenerConditionReason(l.unserved.reason), l.unserved.String())
	case !l.serves():
		return no(gwapiv1.ListenerReasonInvalid, "Nothing is served, because the listener has no usable certificate")
	case g.addressing != nil:
		return no(gwapiv1.ListenerReasonPending, fmt.Sprintf("The Gateway has no usable address: %s", g.addressing))
	case isPending:
		return no(gwapiv1.ListenerReasonPending, pending)
	}
	return newCondition(gwapiv1.ListenerConditionProgrammed, true, gwapiv1.ListenerReasonProgrammed, "The data plane serves the listener")
}
