package watch

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// interest is what the objects of the last Resources call refer to. A change of
// anything else that is only ever reached by reference needs no translation.
type interest struct {
	services map[types.NamespacedName]bool
	secrets  map[types.NamespacedName]bool
	targets  map[target]bool
}

// target is a workload that a Model may be scaled through.
type target struct{ apiVersion, kind, namespace, name string }

func newInterest(gateways []*gwapiv1.Gateway, routes []*gwapiv1.HTTPRoute, models []*v1alpha2.Model) *interest {
	in := &interest{
		services: make(map[types.NamespacedName]bool, len(models)),
		secrets:  map[types.NamespacedName]bool{},
		targets:  make(map[target]bool, len(models)),
	}
	for _, g := range gateways {
		in.addGateway(g)
	}
	for _, r := range routes {
		in.addRoute(r)
	}
	for _, m := range models {
		in.services[types.NamespacedName{Namespace: m.Namespace, Name: m.Service()}] = true
		in.targets[targetOf(m)] = true
	}
	return in
}

func (in *interest) addGateway(g *gwapiv1.Gateway) {
	for _, l := range g.Spec.Listeners {
		if l.TLS == nil {
			continue
		}
		for _, ref := range l.TLS.CertificateRefs {
			in.secrets[types.NamespacedName{Namespace: namespaceOr(ref.Namespace, g.Namespace), Name: string(ref.Name)}] = true
		}
	}
}

func (in *interest) addRoute(r *gwapiv1.HTTPRoute) {
	for i := range r.Spec.Rules {
		rule := &r.Spec.Rules[i]
		in.addFilters(rule.Filters, r.Namespace)
		for _, ref := range rule.BackendRefs {
			in.addBackend(ref.BackendObjectReference, r.Namespace)
			in.addFilters(ref.Filters, r.Namespace)
		}
	}
}

func (in *interest) addFilters(filters []gwapiv1.HTTPRouteFilter, namespace string) {
	for _, f := range filters {
		if f.RequestMirror != nil {
			in.addBackend(f.RequestMirror.BackendRef, namespace)
		}
	}
}

func (in *interest) addBackend(ref gwapiv1.BackendObjectReference, namespace string) {
	if ref.Kind == nil || *ref.Kind == "Service" {
		in.services[types.NamespacedName{Namespace: namespaceOr(ref.Namespace, namespace), Name: string(ref.Name)}] = true
	}
}

func namespaceOr(n *gwapiv1.Namespace, otherwise string) string {
	if n == nil {
		return otherwise
	}
	return string(*n)
}

// targetOf names the workload that a Model is scaled through.
func targetOf(m *v1alpha2.Model) target {
	t := m.ScaleTarget()
	return target{t.APIVersion, t.Kind, m.Namespace, t.Name}
}

// concerns reports whether a change of the object calls for a translation. in
// may be nil: everything does then.
func (in *interest) concerns(object any) bool {
	if in == nil {
		return true
	}
	switch o := object.(type) {
	case *corev1.Service: // of a Gateway's pods, or a backend
		return o.Labels[gwapiv1.GatewayNameLabelKey] != "" || in.services[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}]
	case *discoveryv1.EndpointSlice:
		return in.services[types.NamespacedName{Namespace: o.Namespace, Name: o.Labels[discoveryv1.LabelServiceName]}]
	case *corev1.Secret:
		return in.secrets[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}]
	}
	if name, _, ok := replicasOf(object); ok {
		return in.targets[name]
	}
	return true
}
