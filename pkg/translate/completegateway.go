package translate

import (
	"fmt"
	"regexp"
	"slices"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

var (
	domainPath   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+$`)
	protocolName = regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]+$`)
)

func completeGatewayClass(c *gwapiv1.GatewayClass, v *validator) {
	v.pattern("spec.controllerName", string(c.Spec.ControllerName), domainPath, "write a domain and a path, such as "+DefaultControllerName)
}

func completeReferenceGrant(g *gwapiv1.ReferenceGrant, v *validator) {
	v.entries("spec.from", len(g.Spec.From), 16)
	v.entries("spec.to", len(g.Spec.To), 16)
	for i, from := range g.Spec.From {
		field := fmt.Sprintf("spec.from[%d]", i)
		v.textLength(field+".kind", string(from.Kind), 1, 63)
		v.textLength(field+".namespace", string(from.Namespace), 1, 63)
	}
	for i, to := range g.Spec.To {
		v.textLength(fmt.Sprintf("spec.to[%d].kind", i), string(to.Kind), 1, 63)
	}
}

// completeGateway leaves listeners with equal port, protocol and hostname to
// Translate, though an API server refuses them: there only they are in conflict,
// and the others serve.
func completeGateway(g *gwapiv1.Gateway, v *validator) {
	v.name("spec.gatewayClassName", string(g.Spec.GatewayClassName))
	v.entries("spec.listeners", len(g.Spec.Listeners), 64)
	var names []gwapiv1.SectionName
	for i := range g.Spec.Listeners {
		l := &g.Spec.Listeners[i]
		field := fmt.Sprintf("spec.listeners[%d]", i)
		completeListener(l, field, v)
		if slices.Contains(names, l.Name) {
			v.refuse(field+".name", "listener %s exists already: choose another name", l.Name)
		}
		names = append(names, l.Name)
	}
	v.atMost("spec.addresses", len(g.Spec.Addresses), 16)
	for i := range g.Spec.Addresses {
		if a := &g.Spec.Addresses[i]; a.Type == nil {
			a.Type = new(gwapiv1.IPAddressType)
		}
	}
}

func completeListener(l *gwapiv1.Listener, field string, v *validator) {
	v.sectionName(field+".name", string(l.Name))
	v.port(field+".port", l.Port)
	v.pattern(field+".protocol", string(l.Protocol), protocolName, "use HTTP or HTTPS")
	if l.Hostname != nil && *l.Hostname != "" {
		v.hostname(field+".hostname", string(*l.Hostname))
	}
	completeListenerTLS(l, field, v)
	if l.AllowedRoutes == nil {
		l.AllowedRoutes = &gwapiv1.AllowedRoutes{}
	}
	completeAllowedRoutes(l.AllowedRoutes, field+".allowedRoutes", v)
}

func completeListenerTLS(l *gwapiv1.Listener, field string, v *validator) {
	if l.TLS == nil {
		if l.Protocol == gwapiv1.TLSProtocolType {
			v.refuse(field+".tls", "missing: a TLS listener needs tls.mode")
		}
		return
	}
	switch l.Protocol {
	case gwapiv1.HTTPProtocolType, gwapiv1.TCPProtocolType, gwapiv1.UDPProtocolType:
		v.refuse(field+".tls", "does not go with protocol %s: use protocol HTTPS or remove tls", l.Protocol)
		return
	}
	if l.TLS.Mode == nil {
		l.TLS.Mode = new(gwapiv1.TLSModeTerminate)
	}
	oneOf(v, field+".tls.mode", *l.TLS.Mode, gwapiv1.TLSModeTerminate, gwapiv1.TLSModePassthrough)
	if l.Protocol == gwapiv1.HTTPSProtocolType && *l.TLS.Mode == gwapiv1.TLSModePassthrough {
		v.refuse(field+".tls.mode", "Passthrough does not go with protocol HTTPS: use Terminate")
	}
	if *l.TLS.Mode == gwapiv1.TLSModeTerminate && len(l.TLS.CertificateRefs) == 0 && len(l.TLS.Options) == 0 {
		v.refuse(field+".tls.certificateRefs", "missing: name a Secret of type kubernetes.io/tls")
	}
	v.atMost(field+".tls.certificateRefs", len(l.TLS.CertificateRefs), 64)
	for i := range l.TLS.CertificateRefs {
		ref := &l.TLS.CertificateRefs[i]
		at := fmt.Sprintf("%s.tls.certificateRefs[%d]", field, i)
		v.name(at+".name", string(ref.Name))
		namespace(v, at+".namespace", ref.Namespace)
		if ref.Group == nil {
			ref.Group = new(gwapiv1.Group(""))
		}
		if ref.Kind == nil {
			ref.Kind = new(gwapiv1.Kind("Secret"))
		}
	}
}

func completeAllowedRoutes(a *gwapiv1.AllowedRoutes, field string, v *validator) {
	if a.Namespaces == nil {
		a.Namespaces = &gwapiv1.RouteNamespaces{}
	}
	if a.Namespaces.From == nil {
		a.Namespaces.From = new(gwapiv1.NamespacesFromSame)
	}
	oneOf(v, field+".namespaces.from", *a.Namespaces.From,
		gwapiv1.NamespacesFromAll, gwapiv1.NamespacesFromSelector, gwapiv1.NamespacesFromSame)
	v.atMost(field+".kinds", len(a.Kinds), 8)
	for i := range a.Kinds {
		if a.Kinds[i].Group == nil {
			a.Kinds[i].Group = new(gwapiv1.Group(gwapiv1.GroupName))
		}
		v.textLength(fmt.Sprintf("%s.kinds[%d].kind", field, i), string(a.Kinds[i].Kind), 1, 63)
	}
}
