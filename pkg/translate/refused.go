package translate

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/routing"
)

// Refusal is a resource of a Config that a data plane could not serve, as the
// resource was then.
type Refusal struct {
	Key    string
	Reason string

	resources []any // what goes by the Key: a backend and its endpoints share one
}

// NewRefusal remembers the resource of that Key as it is in a Config, which is
// GatewayConfig.Complete of the translation that was refused. ok is false where
// the Config holds no such resource.
func NewRefusal(key, reason string, in *routing.Config) (r Refusal, ok bool) {
	r = Refusal{Key: key, Reason: reason, resources: resourcesOf(in, key)}
	return r, len(r.resources) > 0
}

// stands reports whether the resource is in a Config as it was refused.
func (r Refusal) stands(in *routing.Config) bool {
	return len(r.resources) > 0 && reflect.DeepEqual(r.resources, resourcesOf(in, r.Key))
}

func resourcesOf(c *routing.Config, key string) []any {
	var out []any
	out = appendKeyed(out, c.Listeners, key, func(l *routing.Listener) string { return l.Key })
	out = appendKeyed(out, c.Routes, key, func(r *routing.Route) string { return r.Key })
	out = appendKeyed(out, c.Backends, key, func(b *routing.Backend) string { return b.Key })
	out = appendKeyed(out, c.EndpointLists, key, func(l *routing.EndpointList) string { return l.Key })
	return appendKeyed(out, c.Certificates, key, func(t *routing.Certificate) string { return t.Key })
}

func appendKeyed[T any](out []any, from []T, key string, keyOf func(*T) string) []any {
	for i := range from {
		if keyOf(&from[i]) == key {
			out = append(out, from[i])
		}
	}
	return out
}

// LeftOut is a resource that a Gateway's Config lacks because its data plane
// refused it as it still is.
type LeftOut struct {
	Gateway types.NamespacedName
	Key     string
	Reason  string
}

// leaveOutRefused applies Options.Refused: of each Gateway the resources that
// are as they were refused stay out of its Config, and the statuses say so. One
// that has changed is given to the data plane again.
func (t *translation) leaveOutRefused() (left []LeftOut) {
	for _, obj := range t.in.gateways {
		g := t.gateways[nameOf(obj)]
		if g == nil || len(t.opts.Refused[nameOf(obj)]) == 0 || !g.accepted() {
			continue
		}
		complete := t.buildConfig(g)
		rest := &complete
		for _, r := range t.opts.Refused[g.name] {
			if !r.stands(&complete) {
				continue
			}
			if without, ok := rest.Without(r.Key); ok {
				rest = without
			}
			left = append(left, LeftOut{Gateway: g.name, Key: r.Key, Reason: r.Reason})
		}
		g.complete, g.rest = &complete, rest
	}
	for _, l := range left {
		t.reportRefused(t.gateways[l.Gateway], l)
	}
	return left
}

// reportRefused records a refused resource with the object it comes from.
func (t *translation) reportRefused(g *gatewayState, left LeftOut) {
	message := fmt.Sprintf("the data plane of Gateway %s refused this and serves the rest: %s; it is tried again when it changes", g.name, left.Reason)
	kind, name := splitKey(left.Key)
	switch kind {
	case string(kindHTTPRoute):
		t.refuseRoute(g, name, message)
	case "Secret":
		refuseCertificate(g, left.Key, fmt.Sprintf("Secret %s: %s", name, message))
		t.warn(kind, name, "", message)
	case string(routing.BackendModel), string(routing.BackendService), string(routing.BackendGroup):
		t.refuseBackend(g, left.Key, message)
	default:
		for _, l := range g.listeners {
			if l.key == left.Key {
				l.unserved = &finding{reason: string(gwapiv1.ListenerReasonInvalid), field: l.field, message: message}
				t.warn("Gateway", g.name, l.field, message)
			}
		}
	}
}

func (t *translation) refuseRoute(g *gatewayState, name types.NamespacedName, message string) {
	for _, r := range t.routes {
		if r.name != name {
			continue
		}
		for _, p := range r.parents {
			if p.gateway == g && p.refused == nil {
				p.refused = &finding{reason: string(gwapiv1.RouteReasonUnsupportedValue), message: message}
			}
		}
		t.warn(string(kindHTTPRoute), name, "", message)
	}
}

// refuseCertificate takes a certificate from the Gateway's listeners.
func refuseCertificate(g *gatewayState, key, message string) {
	for _, l := range g.listeners {
		if !slices.Contains(l.certs, key) {
			continue
		}
		l.certs = slices.DeleteFunc(slices.Clone(l.certs), func(k string) bool { return k == key })
		l.unresolved = append(l.unresolved, finding{
			reason: string(gwapiv1.ListenerReasonInvalidCertificateRef), field: l.field + ".tls.certificateRefs", message: message,
		})
	}
}

// refuseBackend tells the routes of the Gateway that name a backend, and the
// Model that it is.
func (t *translation) refuseBackend(g *gatewayState, key, message string) {
	message = key + ": " + message
	for _, r := range t.routes {
		if r.refs.keys[key] && slices.ContainsFunc(r.parents, func(p *parentState) bool { return p.gateway == g }) {
			f := finding{reason: string(gwapiv1.RouteReasonUnsupportedValue), message: message}
			r.refs.found = append(r.refs.found, f)
			t.warn(string(kindHTTPRoute), r.name, "", message)
		}
	}
	kind, name := splitKey(key)
	if m := t.models[name]; m != nil && kind == string(routing.BackendModel) && m.unserved == nil {
		m.unserved = &finding{reason: v1alpha2.ReasonUnsupported, message: message}
		t.warn(kind, name, "", message)
	}
}
