package translate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/routing"
)

// parentState is one parentRef of a route to a Gateway of ours.
type parentState struct {
	ref     gwapiv1.ParentReference
	gateway *gatewayState
	bound   []binding
	refused *finding // why Accepted is False
}

// binding is a route on one listener.
type binding struct {
	listener  *listenerState
	hostnames []string // lower-case; nil: all of the listener
}

// attach binds the route to the listeners that its parentRefs select. Refs to
// other kinds and to Gateways of other controllers are not ours to report on.
func (t *translation) attach(r *routeState) {
	for i, ref := range r.obj.Spec.ParentRefs {
		field := fmt.Sprintf("spec.parentRefs[%d]", i)
		if deref(ref.Group, gwapiv1.GroupName) != gwapiv1.GroupName || deref(ref.Kind, "Gateway") != "Gateway" {
			t.warn(string(kindHTTPRoute), r.name, field, "only Gateways are served as parents: use kind Gateway")
			continue
		}
		name := types.NamespacedName{Namespace: deref(ref.Namespace, r.name.Namespace), Name: string(ref.Name)}
		g := t.gateways[name]
		if g == nil {
			if !t.in.hasGateway(name) {
				t.warnOwnerless(string(kindHTTPRoute), r.name, field, fmt.Sprintf("Gateway %s does not exist: create it or correct the reference", name))
			}
			continue
		}
		if slices.ContainsFunc(r.parents, func(p *parentState) bool { return sameParentRef(p.ref, ref, r.name.Namespace) }) {
			continue
		}
		p := t.bind(r, g, ref, field)
		r.parents = append(r.parents, p)
		if p.refused != nil && !r.allBroken() {
			t.warn(string(kindHTTPRoute), r.name, p.refused.field, p.refused.message)
		}
	}
}

// bind finds the listeners of a Gateway that take the route through one
// parentRef. The reasons narrow: a listener must be selected, then allow the
// route, then share a hostname with it.
func (t *translation) bind(r *routeState, g *gatewayState, ref gwapiv1.ParentReference, field string) *parentState {
	p := &parentState{ref: ref, gateway: g, refused: r.oversize}
	if p.refused != nil {
		return p
	}
	refuse := func(reason gwapiv1.RouteConditionReason, at, message string) *parentState {
		p.refused = &finding{reason: string(reason), field: at, message: message}
		return p
	}
	selected := selectListeners(g.listeners, ref)
	if len(selected) == 0 {
		return refuse(gwapiv1.RouteReasonNoMatchingParent, field,
			fmt.Sprintf("Gateway %s has no listener with %s: its listeners are %s", g.name, describeSection(ref), describeListeners(g.listeners)))
	}
	allowing := slices.DeleteFunc(selected, func(l *listenerState) bool { return !t.allows(l, r) })
	if len(allowing) == 0 {
		return refuse(gwapiv1.RouteReasonNotAllowedByListeners, field,
			fmt.Sprintf("no listener of Gateway %s that the reference selects allows HTTPRoutes of namespace %s: change allowedRoutes of the listener", g.name, r.name.Namespace))
	}
	for _, l := range allowing {
		if hostnames, ok := r.hostnamesOn(l); ok {
			p.bound = append(p.bound, binding{listener: l, hostnames: hostnames})
		}
	}
	if len(p.bound) == 0 {
		return refuse(gwapiv1.RouteReasonNoMatchingListenerHostname, "spec.hostnames",
			fmt.Sprintf("none of the hostnames fits the listeners of Gateway %s that the reference selects, %s: change either side", g.name, describeListeners(allowing)))
	}
	if r.allBroken() {
		return refuse(gwapiv1.RouteConditionReason(r.invalid[0].reason), "", describe(r.invalid))
	}
	return p
}

// selectListeners are the listeners that a parentRef names, in a new slice.
func selectListeners(listeners []*listenerState, ref gwapiv1.ParentReference) []*listenerState {
	return slices.DeleteFunc(slices.Clone(listeners), func(l *listenerState) bool {
		return ref.SectionName != nil && *ref.SectionName != l.spec.Name || ref.Port != nil && *ref.Port != l.spec.Port
	})
}

// allows reports whether the listener's allowedRoutes admit the route.
func (t *translation) allows(l *listenerState, r *routeState) bool {
	return slices.Contains(l.kinds, kindHTTPRoute) &&
		l.namespaces.allows(r.name.Namespace, t.in.namespaceLabels(r.name.Namespace))
}

// countAttached counts the route on every listener that has accepted it, once
// also where several parentRefs select the listener. Listeners that are not
// accepted themselves count too (Gateway API, ListenerStatus.attachedRoutes).
func (r *routeState) countAttached() {
	counted := map[*listenerState]bool{}
	for _, p := range r.parents {
		if p.refused != nil {
			continue
		}
		for _, b := range p.bound {
			if !counted[b.listener] {
				counted[b.listener] = true
				b.listener.attached++
			}
		}
	}
}

// attachments are the route's bindings to the listeners of a Gateway that
// serve, sorted by listener, each once.
func (r *routeState) attachments(g *gatewayState) []routing.Attachment {
	var out []routing.Attachment
	for _, p := range r.parents {
		if p.gateway != g || p.refused != nil {
			continue
		}
		for _, b := range p.bound {
			if b.listener.serves() {
				out = append(out, routing.Attachment{Listener: b.listener.key, Hostnames: b.hostnames})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b routing.Attachment) int { return strings.Compare(a.Listener, b.Listener) })
	return slices.CompactFunc(out, func(a, b routing.Attachment) bool { return a.Listener == b.Listener })
}

// sameParentRef reports whether two parentRefs of a route in a namespace mean
// the same.
func sameParentRef(a, b gwapiv1.ParentReference, namespace string) bool {
	return deref(a.Group, gwapiv1.GroupName) == deref(b.Group, gwapiv1.GroupName) &&
		deref(a.Kind, "Gateway") == deref(b.Kind, "Gateway") &&
		deref(a.Namespace, namespace) == deref(b.Namespace, namespace) &&
		a.Name == b.Name &&
		deref(a.SectionName, "") == deref(b.SectionName, "") &&
		portOrZero(a.Port) == portOrZero(b.Port)
}

func portOrZero(p *gwapiv1.PortNumber) gwapiv1.PortNumber {
	if p == nil {
		return 0
	}
	return *p
}

func describeSection(ref gwapiv1.ParentReference) string {
	var parts []string
	if ref.SectionName != nil {
		parts = append(parts, fmt.Sprintf("name %s", *ref.SectionName))
	}
	if ref.Port != nil {
		parts = append(parts, fmt.Sprintf("port %d", *ref.Port))
	}
	return strings.Join(parts, " and ")
}

func describeListeners(listeners []*listenerState) string {
	var parts []string
	for i, l := range listeners {
		if i == maxDescribed {
			parts = append(parts, fmt.Sprintf("and %d more", len(listeners)-maxDescribed))
			break
		}
		part := fmt.Sprintf("%s (port %d", l.spec.Name, l.spec.Port)
		if l.hostname != "" {
			part += ", hostname " + l.hostname
		}
		parts = append(parts, part+")")
	}
	return strings.Join(parts, ", ")
}
