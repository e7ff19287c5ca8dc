package provision

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// service has one port for each listener port. Metrics are not among them: what
// clients reach, the world may.
func service(g Gateway) *corev1.Service {
	p := or(g.Parameters.Service, v1alpha2.ServiceParameters{})
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: objectMeta(g),
		Spec: corev1.ServiceSpec{
			Type:     or(p.Type, corev1.ServiceTypeLoadBalancer),
			Selector: selector(g.key(), g.class()),
		},
	}
	if s.Spec.Type != corev1.ServiceTypeClusterIP {
		s.Spec.ExternalTrafficPolicy = or(p.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		s.Spec.LoadBalancerIP = wantedAddress(g.Object)
	}
	for key, value := range p.Annotations {
		s.Annotations[key] = string(value)
	}
	for _, port := range g.Ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
			Name:       fmt.Sprintf("port-%d", port),
			Protocol:   corev1.ProtocolTCP,
			Port:       port,
			TargetPort: intstr.FromInt32(port),
		})
	}
	return s
}

// wantedAddress is the address that the Gateway asks for, "" where any will do.
// A Service can ask for one; a Gateway that asks for more is told, by its status,
// which of them it lacks.
func wantedAddress(g *gwapiv1.Gateway) string {
	for _, a := range g.Spec.Addresses {
		if a.Value != "" && or(a.Type, gwapiv1.IPAddressType) == gwapiv1.IPAddressType {
			return a.Value
		}
	}
	return ""
}

// autoscaler chooses the number of pods by the use of the requested cpu.
func autoscaler(g Gateway, a *v1alpha2.Autoscaling) *autoscalingv2.HorizontalPodAutoscaler {
	least, most, utilization := scaling(a)
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: objectMeta(g),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: g.name()},
			MinReplicas:    &least,
			MaxReplicas:    most,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{
						Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization,
					},
				},
			}},
		},
	}
}
