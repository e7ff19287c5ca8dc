package translate

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"flexinfer.ai/gateway/pkg/routing"
)

// endpoints are the replicas behind a Service port, of the Service's first
// address family, sorted by address, each pod and each address once.
//
// The first family is decisive because a dual-stack Service lists each pod in a
// slice of either family, and one pod is one endpoint.
func (t *translation) endpoints(name types.NamespacedName, svc *corev1.Service, port servicePort) []routing.Endpoint {
	all := t.in.slices[name]
	family := firstFamily(svc, all)
	var list []routing.Endpoint
	for _, s := range all {
		if s.AddressType != family {
			continue
		}
		number, ok := endpointPort(s, port)
		if !ok {
			continue
		}
		for _, e := range s.Endpoints {
			if endpoint, ok := readEndpoint(e, number); ok {
				list = append(list, endpoint)
			}
		}
	}
	return dedupeEndpoints(list)
}

// firstFamily is the address family whose slices count: the Service's first one
// if there are slices of it or the Service names it, else that of its slices.
func firstFamily(svc *corev1.Service, all []*discoveryv1.EndpointSlice) discoveryv1.AddressType {
	has := func(family discoveryv1.AddressType) bool {
		return slices.ContainsFunc(all, func(s *discoveryv1.EndpointSlice) bool { return s.AddressType == family })
	}
	family := discoveryv1.AddressTypeIPv4
	if len(svc.Spec.IPFamilies) > 0 {
		return discoveryv1.AddressType(svc.Spec.IPFamilies[0])
	}
	if ip, err := netip.ParseAddr(svc.Spec.ClusterIP); err == nil && ip.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	if other := otherFamily(family); !has(family) && has(other) {
		return other
	}
	return family
}

func otherFamily(family discoveryv1.AddressType) discoveryv1.AddressType {
	if family == discoveryv1.AddressTypeIPv4 {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}

// endpointPort is the port of a slice's endpoints that belongs to the Service's
// port: found by name, since a slice's numbers are those of the pods. A slice
// port without a number means every port.
func endpointPort(s *discoveryv1.EndpointSlice, port servicePort) (uint16, bool) {
	if !port.named {
		return portNumber(port.number)
	}
	for _, p := range s.Ports {
		if deref(p.Name, "") != port.name || p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP {
			continue
		}
		if p.Port == nil {
			return portNumber(port.direct)
		}
		return portNumber(*p.Port)
	}
	return 0, false
}

func portNumber(n int32) (uint16, bool) { return uint16(n), n >= 1 && n <= 65535 }

// readEndpoint reads one endpoint of a slice. Of several addresses the first
// one counts, as the EndpointSlice API asks; one that is no IP is passed over.
func readEndpoint(e discoveryv1.Endpoint, port uint16) (routing.Endpoint, bool) {
	if len(e.Addresses) == 0 {
		return routing.Endpoint{}, false
	}
	ip, err := netip.ParseAddr(e.Addresses[0])
	if err != nil {
		return routing.Endpoint{}, false
	}
	endpoint := routing.Endpoint{
		Address: netip.AddrPortFrom(ip.WithZone(""), port).String(),
		State:   endpointState(e.Conditions),
	}
	if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
		endpoint.UID = string(e.TargetRef.UID)
	}
	return endpoint, true
}

// endpointState reads the conditions of an endpoint; an absent ready is true,
// an absent serving is what ready is.
func endpointState(c discoveryv1.EndpointConditions) routing.EndpointState {
	ready := c.Ready == nil || *c.Ready
	serving := ready
	if c.Serving != nil {
		serving = *c.Serving
	}
	terminating := c.Terminating != nil && *c.Terminating
	switch {
	case ready && !terminating:
		return routing.EndpointReady
	case serving && terminating:
		return routing.EndpointDraining
	}
	return routing.EndpointNotReady
}

// stateRank orders endpoint states, the most useful first.
var stateRank = map[routing.EndpointState]int{
	routing.EndpointReady:    0,
	routing.EndpointDraining: 1,
	routing.EndpointNotReady: 2,
}

// dedupeEndpoints keeps each pod and each address once, the most useful state
// of several, and sorts by address. While a Service's slices are rearranged one
// pod may stand in two of them.
func dedupeEndpoints(list []routing.Endpoint) []routing.Endpoint {
	slices.SortFunc(list, func(a, b routing.Endpoint) int {
		return cmp.Or(
			cmp.Compare(stateRank[a.State], stateRank[b.State]),
			strings.Compare(a.Address, b.Address),
			strings.Compare(b.UID, a.UID),
		)
	})
	addresses, uids := map[string]bool{}, map[string]bool{}
	list = slices.DeleteFunc(list, func(e routing.Endpoint) bool {
		if addresses[e.Address] || e.UID != "" && uids[e.UID] {
			return true
		}
		addresses[e.Address] = true
		uids[e.UID] = true
		return false
	})
	slices.SortFunc(list, func(a, b routing.Endpoint) int { return strings.Compare(a.Address, b.Address) })
	return list
}

// countReady counts the endpoints that take requests.
func countReady(list []routing.Endpoint) int32 {
	n := int32(0)
	for _, e := range list {
		if e.State == routing.EndpointReady {
			n++
		}
	}
	return n
}
