package watch

import (
	corev1 "k8s.io/api/core/v1"
)

// Pod is a gateway pod: one of those that were provisioned for a Gateway.
type Pod struct {
	Namespace, Name string
	ServiceAccount  string // which tells the Gateway
	// Ready pods get the Gateway's traffic.
	Ready bool
	// Terminating pods drain; they may still carry requests.
	Terminating bool
}

// GatewayPods are the gateway pods that exist, in no order. It must not be
// called before Start has returned.
func (s *Source) GatewayPods() []Pod {
	var pods []Pod
	for _, p := range list[*corev1.Pod](s.store(corev1.SchemeGroupVersion.WithKind("Pod"))) {
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			pods = append(pods, gatewayPod(p))
		}
	}
	return pods
}

func gatewayPod(p *corev1.Pod) Pod {
	pod := Pod{
		Namespace: p.Namespace, Name: p.Name, ServiceAccount: p.Spec.ServiceAccountName,
		Terminating: p.DeletionTimestamp != nil,
	}
	for _, c := range p.Status.Conditions {
		pod.Ready = pod.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	return pod
}

// stripPod keeps what gatewayPod reads.
func stripPod(p *corev1.Pod) {
	p.Annotations, p.OwnerReferences, p.Finalizers = nil, nil, nil
	p.Spec = corev1.PodSpec{ServiceAccountName: p.Spec.ServiceAccountName}
	status := corev1.PodStatus{Phase: p.Status.Phase}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			status.Conditions = append(status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status})
		}
	}
	p.Status = status
}
