package provision

import (
	"net/netip"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// observe reads what the objects of a Gateway say of themselves. Objects of the
// same name that are not this Gateway's say nothing about it.
func (o *owned) observe(name types.NamespacedName, gateway types.UID) Outcome {
	var out Outcome
	if s, ok := o.get(corev1.SchemeGroupVersion.WithKind("Service"), name).(*corev1.Service); ok && belongs(s, gateway) {
		out.Addresses = addresses(s)
	}
	if d, ok := o.get(appsv1.SchemeGroupVersion.WithKind("Deployment"), name).(*appsv1.Deployment); ok && belongs(d, gateway) {
		out.Replicas, out.Ready = or(d.Spec.Replicas, 1), d.Status.ReadyReplicas
		if out.Ready < out.Replicas {
			out.Problem = problem(d.Status.Conditions)
		}
	}
	return out
}

func belongs(o metav1.Object, gateway types.UID) bool {
	ref := ownerOf(o)
	return ref != nil && ref.UID == gateway
}

// addresses are those at which clients reach a Service: a load balancer's once
// it has some, else those inside the cluster. Those of nodes are not among them.
func addresses(s *corev1.Service) []gwapiv1.GatewayStatusAddress {
	var out []gwapiv1.GatewayStatusAddress
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		for _, i := range s.Status.LoadBalancer.Ingress {
			switch {
			case i.IP != "":
				out = append(out, gwapiv1.GatewayStatusAddress{Type: new(gwapiv1.IPAddressType), Value: i.IP})
			case i.Hostname != "":
				out = append(out, gwapiv1.GatewayStatusAddress{Type: new(gwapiv1.HostnameAddressType), Value: i.Hostname})
			}
		}
		return out
	}
	for _, ip := range s.Spec.ClusterIPs {
		if _, err := netip.ParseAddr(ip); err == nil { // not None
			out = append(out, gwapiv1.GatewayStatusAddress{Type: new(gwapiv1.IPAddressType), Value: ip})
		}
	}
	return out
}

// problem is why a Deployment lacks pods, as far as it says so.
func problem(conditions []appsv1.DeploymentCondition) string {
	for _, c := range conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	for _, c := range conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}
