package control

import (
	"net"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// peers finds the other replicas of the controller: the address of their
// snapshot port by the name of their pod. They are the pods behind its Service.
func peers(slices []*discoveryv1.EndpointSlice, service types.NamespacedName, own string, port int) map[string]string {
	out := map[string]string{}
	for _, s := range slices {
		if s.Namespace != service.Namespace || s.Labels[discoveryv1.LabelServiceName] != service.Name {
			continue
		}
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			gone := e.Conditions.Terminating != nil && *e.Conditions.Terminating
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready
			if ref := e.TargetRef; ref != nil && ref.Kind == "Pod" && ref.Name != own && ready && !gone && len(e.Addresses) > 0 {
				out[ref.Name] = net.JoinHostPort(e.Addresses[0], strconv.Itoa(port))
			}
		}
	}
	return out
}
