package provision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// TestOutcomes takes a Gateway from nothing to ready pods at an address.
func TestOutcomes(t *testing.T) {
	c := newCluster(t)
	g := gateway("inference", `{}`, 80)
	if got := c.Outcomes(); got != nil {
		t.Errorf("before the first Submit: %v", got)
	}
	c.submit(g)
	want := func(what string, want Outcome) {
		t.Helper()
		c.sync()
		if diff := cmp.Diff(want, c.Outcomes()[g.key()]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	want("submitted", Outcome{})
	c.turn()
	want("applied", Outcome{Replicas: 2})

	deployment := &appsv1.Deployment{}
	c.get(deployment, g.name())
	deployment.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Message: "progressing"},
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"},
	}
	if err := c.client.Status().Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	want("no quota", Outcome{Replicas: 2, Problem: "exceeded quota"})

	deployment.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Message: "timed out progressing"},
	}
	deployment.Status.ReadyReplicas = 1
	if err := c.client.Status().Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	want("one is ready", Outcome{Replicas: 2, Ready: 1, Problem: "timed out progressing"})

	service := &corev1.Service{}
	c.get(service, g.name())
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.7"}, {Hostname: "lb.example"}}
	if err := c.client.Status().Update(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	deployment.Status.ReadyReplicas = 2
	if err := c.client.Status().Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	want("ready", Outcome{Replicas: 2, Ready: 2, Addresses: []gwapiv1.GatewayStatusAddress{
		{Type: new(gwapiv1.IPAddressType), Value: "192.0.2.7"}, {Type: new(gwapiv1.HostnameAddressType), Value: "lb.example"},
	}})
}

func TestAddresses(t *testing.T) {
	f := func(what string, kind corev1.ServiceType, clusterIPs []string, want ...string) {
		t.Helper()
		s := &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, ClusterIPs: clusterIPs}}
		var got []string
		for _, a := range addresses(s) {
			got = append(got, string(*a.Type)+" "+a.Value)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	f("a load balancer without address", corev1.ServiceTypeLoadBalancer, []string{"10.0.0.1"})
	f("both families", corev1.ServiceTypeClusterIP, []string{"10.0.0.1", "fd00::1"}, "IPAddress 10.0.0.1", "IPAddress fd00::1")
	f("node ports", corev1.ServiceTypeNodePort, []string{"10.0.0.1"}, "IPAddress 10.0.0.1")
	f("headless", corev1.ServiceTypeClusterIP, []string{"None"})
	f("not yet allocated", corev1.ServiceTypeClusterIP, nil)
}
