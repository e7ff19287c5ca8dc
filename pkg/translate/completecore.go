package translate

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func completeService(s *corev1.Service, v *validator) {
	if s.Spec.Type == "" {
		s.Spec.Type = corev1.ServiceTypeClusterIP
	}
	oneOf(v, "spec.type", s.Spec.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName)
	if ip := s.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone {
		if _, err := netip.ParseAddr(ip); err != nil {
			v.refuse("spec.clusterIP", "%q is no IP address: write one, None, or leave it out", ip)
		}
	}
	var names []string
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		field := fmt.Sprintf("spec.ports[%d]", i)
		v.port(field+".port", p.Port)
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		oneOf(v, field+".protocol", p.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
		if p.TargetPort == (intstr.IntOrString{}) {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
		if len(s.Spec.Ports) > 1 && p.Name == "" {
			v.refuse(field+".name", "missing: a Service with several ports names them")
		}
		if p.Name != "" && slices.Contains(names, p.Name) {
			v.refuse(field+".name", "port %s exists already: choose another name", p.Name)
		}
		names = append(names, p.Name)
	}
}

// completeEndpointSlice takes loopback addresses, which an API server refuses:
// in files they are the usual case.
func completeEndpointSlice(s *discoveryv1.EndpointSlice, v *validator) {
	oneOf(v, "addressType", s.AddressType, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	if s.Labels[discoveryv1.LabelServiceName] == "" {
		v.refuse("metadata.labels["+discoveryv1.LabelServiceName+"]", "missing: name the Service that the endpoints belong to")
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Name == nil {
			p.Name = new("")
		}
		if p.Protocol == nil {
			p.Protocol = new(corev1.ProtocolTCP)
		}
		optionalPort(v, fmt.Sprintf("ports[%d].port", i), p.Port)
	}
	for i, e := range s.Endpoints {
		if len(e.Addresses) == 0 {
			v.refuse(fmt.Sprintf("endpoints[%d].addresses", i), "missing: add the address of the endpoint")
		}
		for j, a := range e.Addresses {
			ip, err := netip.ParseAddr(a)
			if err != nil || ip.Is4() != (s.AddressType == discoveryv1.AddressTypeIPv4) {
				v.refuse(fmt.Sprintf("endpoints[%d].addresses[%d]", i, j), "%q is no %s address: correct it or addressType", a, s.AddressType)
			}
		}
	}
}

// completeSecret moves stringData to data, as an API server does on writing.
func completeSecret(s *corev1.Secret, _ *validator) {
	if s.Type == "" {
		s.Type = corev1.SecretTypeOpaque
	}
	for key, value := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}
