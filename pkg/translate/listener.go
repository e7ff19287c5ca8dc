package translate

import (
	"fmt"
	"slices"
	"strings"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/routing"
)

// listenerState is one listener of a Gateway and what became of it.
type listenerState struct {
	spec     gwapiv1.Listener
	key      string // routing key, "namespace/gateway/listener"
	field    string // path of the listener in its Gateway
	hostname string // lower-case

	kinds      []gwapiv1.Kind
	namespaces allowedNamespaces
	certs      []string // certificate keys, HTTPS only

	refused    *finding  // why it is not accepted, conflicts excepted
	conflict   *finding  // why it is not distinct
	unserved   *finding  // why the data plane does not serve it
	unresolved []finding // references that did not resolve

	attached int32 // routes whose Accepted is True for it
}

// accepted reports whether routes on the listener may take traffic.
func (l *listenerState) accepted() bool { return l.refused == nil && l.conflict == nil }

// serves reports whether the listener has all it needs to take connections: an
// HTTPS one needs a certificate.
func (l *listenerState) serves() bool {
	return l.accepted() && l.unserved == nil && (l.spec.Protocol != gwapiv1.HTTPSProtocolType || len(l.certs) > 0)
}

// findings are all mistakes of the listener.
func (l *listenerState) findings() []finding {
	var found []finding
	for _, f := range []*finding{l.refused, l.conflict} {
		if f != nil {
			found = append(found, *f)
		}
	}
	return append(found, l.unresolved...)
}

// config is the listener as the data plane gets it.
func (l *listenerState) config(gateway string) routing.Listener {
	return routing.Listener{
		Key:          l.key,
		Gateway:      gateway,
		Port:         uint16(l.spec.Port),
		Protocol:     routing.Protocol(l.spec.Protocol),
		Hostname:     l.hostname,
		Certificates: l.certs,
	}
}

// resolveListeners reads the listeners of a Gateway, each on its own.
func (t *translation) resolveListeners(g *gwapiv1.Gateway) []*listenerState {
	states := make([]*listenerState, 0, len(g.Spec.Listeners))
	for i, spec := range g.Spec.Listeners {
		if slices.ContainsFunc(states, func(l *listenerState) bool { return l.spec.Name == spec.Name }) {
			continue // an API server and Decode refuse the whole Gateway
		}
		states = append(states, t.resolveListener(g, spec, fmt.Sprintf("spec.listeners[%d]", i)))
	}
	return states
}

func (t *translation) resolveListener(g *gwapiv1.Gateway, spec gwapiv1.Listener, field string) *listenerState {
	l := &listenerState{
		spec:     spec,
		key:      nameOf(g).String() + "/" + string(spec.Name),
		field:    field,
		hostname: strings.ToLower(deref(spec.Hostname, "")),
	}
	if _, ok := protocolKinds[spec.Protocol]; !ok {
		l.refused = &finding{
			reason:  string(gwapiv1.ListenerReasonUnsupportedProtocol),
			field:   field + ".protocol",
			message: fmt.Sprintf("protocol %s is not supported: use HTTP or HTTPS", spec.Protocol),
		}
		return l
	}
	l.kinds, l.unresolved = readAllowedKinds(spec, field+".allowedRoutes.kinds")
	l.namespaces, l.refused = readAllowedNamespaces(spec.AllowedRoutes, g.Namespace, field+".allowedRoutes.namespaces")
	if l.refused == nil {
		l.refused = refuseListenerFields(g, spec, field)
	}
	if spec.Protocol == gwapiv1.HTTPSProtocolType {
		t.resolveListenerTLS(g, l)
	}
	return l
}

// resolveListenerTLS fills in the certificates of an HTTPS listener.
func (t *translation) resolveListenerTLS(g *gwapiv1.Gateway, l *listenerState) {
	field := l.field + ".tls"
	config := l.spec.TLS
	switch {
	case config == nil || len(config.CertificateRefs) == 0:
		l.unresolved = append(l.unresolved, finding{
			reason:  string(gwapiv1.ListenerReasonInvalidCertificateRef),
			field:   field + ".certificateRefs",
			message: "an HTTPS listener needs a certificate: name a Secret of type kubernetes.io/tls",
		})
		return
	case config.Mode != nil && *config.Mode != gwapiv1.TLSModeTerminate:
		l.refused = unsupportedListenerValue(field+".mode",
			fmt.Sprintf("mode %s does not go with protocol HTTPS: use Terminate", *config.Mode))
		return
	}
	certs, found := t.resolveCertificates(g, config.CertificateRefs, field+".certificateRefs")
	l.certs = certs
	l.unresolved = append(l.unresolved, found...)
}

// refuseListenerFields finds settings that must not be passed over in silence,
// because they guard the listener and nothing here enforces them.
func refuseListenerFields(g *gwapiv1.Gateway, spec gwapiv1.Listener, field string) *finding {
	switch {
	case spec.Port < 1 || spec.Port > 65535:
		return unsupportedListenerValue(field+".port", fmt.Sprintf("port %d is out of range: use 1 to 65535", spec.Port))
	case spec.Hostname != nil && *spec.Hostname != "" && checkHostname(string(*spec.Hostname)) != "":
		return unsupportedListenerValue(field+".hostname", checkHostname(string(*spec.Hostname)))
	case spec.Filters != nil && len(spec.Filters.Requests) > 0:
		return unsupportedListenerValue(field+".filters", "listener filters are not supported: put the filters into the routes' rules")
	case spec.Protocol == gwapiv1.HTTPSProtocolType && asksClientCertificate(g, spec.Port):
		return unsupportedListenerValue("spec.tls.frontend", "client certificates are not verified here: remove the validation")
	}
	return nil
}

// asksClientCertificate reports whether spec.tls.frontend asks connections on
// the port for a certificate; an entry for the port replaces the default.
func asksClientCertificate(g *gwapiv1.Gateway, port gwapiv1.PortNumber) bool {
	if g.Spec.TLS == nil || g.Spec.TLS.Frontend == nil {
		return false
	}
	frontend := g.Spec.TLS.Frontend
	i := slices.IndexFunc(frontend.PerPort, func(p gwapiv1.TLSPortConfig) bool { return p.Port == port })
	if i >= 0 {
		return frontend.PerPort[i].TLS.Validation != nil
	}
	return frontend.Default.Validation != nil
}
