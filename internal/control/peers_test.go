package control

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestPeers(t *testing.T) {
	endpoint := func(pod, address string, ready, terminating bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{address}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: pod},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Terminating: &terminating},
		}
	}
	slice := func(namespace, service string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			Endpoints:  endpoints,
		}
	}
	got := peers([]*discoveryv1.EndpointSlice{
		slice("system", "controller", endpoint("own", "10.0.0.1", true, false), endpoint("b", "10.0.0.2", true, false),
			endpoint("starting", "10.0.0.3", false, false), endpoint("draining", "10.0.0.4", true, true)),
		slice("system", "controller", endpoint("six", "fd00::6", true, false), discoveryv1.Endpoint{Addresses: []string{"10.0.0.7"}}),
		slice("system", "other", endpoint("x", "10.0.0.8", true, false)),
		slice("tenant", "controller", endpoint("y", "10.0.0.9", true, false)),
	}, types.NamespacedName{Namespace: "system", Name: "controller"}, "own", 8443)
	if diff := cmp.Diff(map[string]string{"b": "10.0.0.2:8443", "six": "[fd00::6]:8443"}, got); diff != "" {
		t.Error(diff)
	}
}
