package translate

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/routing"
)

// gatewayState is one Gateway of our classes and what became of it.
type gatewayState struct {
	obj       *gwapiv1.Gateway
	name      types.NamespacedName
	listeners []*listenerState
	// parameters say how its gateway pods run.
	parameters v1alpha2.GatewayParametersSpec

	refused    *finding // why nothing of the Gateway is accepted
	addresses  []gwapiv1.GatewayStatusAddress
	addressing *finding // why its addresses keep it from serving

	// complete and rest are the Config with and without what the data plane
	// refused; nil where it refused nothing.
	complete, rest *routing.Config
}

// resolveGateways reads every Gateway of our classes.
func (t *translation) resolveGateways() {
	t.gateways = map[types.NamespacedName]*gatewayState{}
	var byAge []*gatewayState
	for _, obj := range t.in.gateways {
		if !t.ownsGateway(obj) {
			continue
		}
		g := t.resolveGateway(obj)
		t.gateways[g.name] = g
		byAge = append(byAge, g)
	}
	if t.opts.SharedAddress {
		slices.SortStableFunc(byAge, func(a, b *gatewayState) int { return compareAge(a.obj, b.obj) })
		sharePorts(byAge)
	}
	for _, obj := range t.in.gateways {
		if g := t.gateways[nameOf(obj)]; g != nil {
			t.warnGateway(g)
		}
	}
}

// ownsGateway reports whether the Gateway's class is ours, accepted or not.
func (t *translation) ownsGateway(obj *gwapiv1.Gateway) bool {
	class := obj.Spec.GatewayClassName
	if _, ours := t.classes[class]; ours {
		return true
	}
	if !slices.ContainsFunc(t.in.classes, func(c *gwapiv1.GatewayClass) bool { return c.Name == string(class) }) {
		t.warnOwnerless("Gateway", nameOf(obj), "spec.gatewayClassName", fmt.Sprintf("GatewayClass %s does not exist: correct the name, or create it with spec.controllerName %s",
			class, t.opts.controllerName()))
	}
	return false
}

func (t *translation) resolveGateway(obj *gwapiv1.Gateway) *gatewayState {
	g := &gatewayState{obj: obj, name: nameOf(obj)}
	g.listeners = t.resolveListeners(obj)
	findConflicts(g.listeners)
	g.refused = t.refuseGateway(g)
	t.resolveAddresses(g)
	return g
}

// refuseGateway finds what makes the whole Gateway unacceptable, and reads its
// parameters.
func (t *translation) refuseGateway(g *gatewayState) *finding {
	if class := g.obj.Spec.GatewayClassName; !t.classes[class] {
		return &finding{
			reason:  string(gwapiv1.GatewayReasonInvalidParameters),
			field:   "spec.gatewayClassName",
			message: fmt.Sprintf("GatewayClass %s is not accepted: mend what its condition Accepted says", class),
		}
	}
	parameters, f := t.resolveParameters(g.obj)
	if f != nil {
		return f
	}
	g.parameters = parameters
	for i, a := range g.obj.Spec.Addresses {
		if kind := deref(a.Type, string(gwapiv1.IPAddressType)); kind != string(gwapiv1.IPAddressType) {
			return &finding{
				reason:  string(gwapiv1.GatewayReasonUnsupportedAddress),
				field:   fmt.Sprintf("spec.addresses[%d].type", i),
				message: fmt.Sprintf("addresses of type %s are not supported: use IPAddress", kind),
			}
		}
	}
	return nil
}

// resolveAddresses compares the addresses that the Gateway asks for with those
// that the caller assigned to it.
func (t *translation) resolveAddresses(g *gatewayState) {
	if t.opts.Addresses == nil {
		return
	}
	g.addresses = t.opts.Addresses[g.name]
	if g.refused != nil {
		return
	}
	if len(g.addresses) == 0 {
		g.addressing = &finding{
			reason:  string(gwapiv1.GatewayReasonAddressNotAssigned),
			message: "no address is assigned yet",
		}
	}
	for i, a := range g.obj.Spec.Addresses {
		if a.Value != "" && !slices.ContainsFunc(g.addresses, func(s gwapiv1.GatewayStatusAddress) bool { return sameAddress(s.Value, a.Value) }) {
			g.addressing = &finding{
				reason:  string(gwapiv1.GatewayReasonAddressNotUsable),
				field:   fmt.Sprintf("spec.addresses[%d].value", i),
				message: fmt.Sprintf("address %s cannot be used here: choose one that this installation may assign", a.Value),
			}
			return
		}
	}
}

func sameAddress(a, b string) bool {
	ipA, errA := netip.ParseAddr(a)
	ipB, errB := netip.ParseAddr(b)
	return a == b || errA == nil && errB == nil && ipA == ipB
}

// warnGateway reports the Gateway's mistakes, and settings without effect.
func (t *translation) warnGateway(g *gatewayState) {
	if f := g.refused; f != nil {
		t.warn("Gateway", g.name, f.field, f.message)
	}
	if f := g.addressing; f != nil && f.reason != string(gwapiv1.GatewayReasonAddressNotAssigned) { // that is no mistake
		t.warn("Gateway", g.name, f.field, f.message)
	}
	for _, l := range g.listeners {
		t.warnAll("Gateway", g.name, l.findings())
	}
	if tls := g.obj.Spec.TLS; tls != nil && tls.Backend != nil {
		t.warn("Gateway", g.name, "spec.tls.backend", "has no effect: backends are reached without TLS")
	}
}

// accepted reports whether the Gateway may serve: it is not refused as a whole
// and has an accepted listener.
func (g *gatewayState) accepted() bool {
	return g.refused == nil && slices.ContainsFunc(g.listeners, (*listenerState).accepted)
}
