package translate

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/routing"
)

// servicePort is where the requests for one backend go on a Service.
type servicePort struct {
	// name finds the port in EndpointSlices, where named is true.
	name  string
	named bool
	// number is the port that clients of the Service dial; where named is
	// false also the port of its endpoints.
	number int32
	// direct is the port that the pods themselves are reached at, for a
	// headless Service, whose name resolves to pods.
	direct int32
}

// portOf describes a port that a Service declares.
func portOf(p corev1.ServicePort) servicePort {
	direct := p.Port
	if p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal > 0 {
		direct = p.TargetPort.IntVal
	}
	return servicePort{name: p.Name, named: true, number: p.Port, direct: direct}
}

// checkService finds what keeps a Service from carrying requests at all.
func checkService(name types.NamespacedName, svc *corev1.Service) (problem string) {
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return fmt.Sprintf("Service %s is of type ExternalName, which leads to a name outside the cluster and is not served: use a Service without selector and an EndpointSlice with the addresses", name)
	}
	return ""
}

// checkPort finds what keeps a Service's port from carrying HTTP requests.
func checkPort(name types.NamespacedName, p corev1.ServicePort) (problem string) {
	if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP {
		return fmt.Sprintf("port %d of Service %s is %s: use a TCP port", p.Port, name, p.Protocol)
	}
	if p.AppProtocol == nil || isServedAppProtocol(*p.AppProtocol) {
		return ""
	}
	return fmt.Sprintf("port %d of Service %s has appProtocol %s, which is not spoken to backends here: use http or kubernetes.io/ws, or remove it",
		p.Port, name, *p.AppProtocol)
}

// isServedAppProtocol reports whether requests can be sent as HTTP/1.1 without
// TLS to a port of that appProtocol.
func isServedAppProtocol(protocol string) bool {
	switch strings.ToLower(protocol) {
	case "", "http", "kubernetes.io/ws":
		return true
	}
	return false
}

func isHeadless(svc *corev1.Service) bool {
	return svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone
}

// serviceAddress is the "host:port" at which the Service itself is dialled: its
// cluster IP, or its DNS name where it has none.
func serviceAddress(name types.NamespacedName, svc *corev1.Service, port servicePort) string {
	if isHeadless(svc) {
		host := name.Name + "." + name.Namespace + ".svc"
		return net.JoinHostPort(host, strconv.Itoa(int(port.direct)))
	}
	return net.JoinHostPort(svc.Spec.ClusterIP, strconv.Itoa(int(port.number)))
}

// serviceBackend is a Service port used as a backend of routes.
type serviceBackend struct {
	backend routing.Backend
	list    routing.EndpointList
}

// resolveService resolves a reference to a Service. The reasons are those of a
// route's ResolvedRefs.
func (t *translation) resolveService(name types.NamespacedName, port *gwapiv1.PortNumber, field string) (key string, found *finding) {
	fail := func(reason gwapiv1.RouteConditionReason, at, message string) (string, *finding) {
		return "", &finding{reason: string(reason), field: at, message: message}
	}
	svc := t.in.services[name]
	if svc == nil {
		return fail(gwapiv1.RouteReasonBackendNotFound, field, fmt.Sprintf("Service %s does not exist: create it or correct the name", name))
	}
	if problem := checkService(name, svc); problem != "" {
		return fail(gwapiv1.RouteReasonUnsupportedProtocol, field, problem)
	}
	i := t.portIndex(name, svc, port)
	if i < 0 {
		message := fmt.Sprintf("Service %s has no such port: use one of %s", name, listPorts(svc))
		return fail(gwapiv1.RouteReasonBackendNotFound, field+".port", message)
	}
	if problem := checkPort(name, svc.Spec.Ports[i]); problem != "" {
		return fail(gwapiv1.RouteReasonUnsupportedProtocol, field+".port", problem)
	}
	return t.serviceBackend(name, svc, portOf(svc.Spec.Ports[i])), nil
}

// portIndex finds a port of a Service; -1: it has none of that number. A Service may
// have thousands, and thousands of references.
func (t *translation) portIndex(name types.NamespacedName, svc *corev1.Service, port *gwapiv1.PortNumber) int {
	if port == nil {
		return -1
	}
	index := t.ports[name]
	if index == nil {
		index = make(map[int32]int, len(svc.Spec.Ports))
		for i := len(svc.Spec.Ports) - 1; i >= 0; i-- { // of several the first counts
			index[svc.Spec.Ports[i].Port] = i
		}
		t.ports[name] = index
	}
	if i, found := index[*port]; found {
		return i
	}
	return -1
}

// serviceBackend makes the backend of a Service port, once in a translation.
func (t *translation) serviceBackend(name types.NamespacedName, svc *corev1.Service, port servicePort) (key string) {
	key = fmt.Sprintf("Service/%s:%d", name, port.number)
	if t.services[key] != nil {
		return key
	}
	source := annotationSource{annotations: svc.Annotations}
	strategy, f := readStrategy(source)
	if f != nil {
		t.warn("Service", name, f.field, f.message)
	}
	t.warnAll("Service", name, readUnknown(source))
	t.services[key] = &serviceBackend{
		backend: routing.Backend{
			Key:       key,
			Kind:      routing.BackendService,
			Namespace: name.Namespace,
			Name:      name.Name,
			Strategy:  strategy,
			Endpoints: key,
			Service:   serviceAddress(name, svc, port),
		},
		list: routing.EndpointList{Key: key, Endpoints: t.endpoints(name, svc, port)},
	}
	return key
}

// listPorts names a Service's ports for people.
func listPorts(svc *corev1.Service) string {
	if len(svc.Spec.Ports) == 0 {
		return "(none is declared)"
	}
	var parts []string
	for i, p := range svc.Spec.Ports {
		if i == maxDescribed {
			parts = append(parts, fmt.Sprintf("and %d more", len(svc.Spec.Ports)-maxDescribed))
			break
		}
		part := strconv.Itoa(int(p.Port))
		if p.Name != "" {
			part += " (" + p.Name + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
