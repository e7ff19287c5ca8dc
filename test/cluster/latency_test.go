package cluster

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// From an endpoint's change in the API server to requests that go there, in
// every gateway pod, a hundred times. The time is shown, not judged.
func TestChangeToTraffic(t *testing.T) {
	const changes = 100
	w := newWorld(t)
	w.model(engines{model: "engines", replicas: 2, flags: []string{"--time-scale=0.02"}})
	pods := w.pods(map[string]string{"app": "engines"})
	if len(pods) != 2 {
		t.Fatalf("%d engines, want 2", len(pods))
	}
	// A Service whose endpoints are the test's own.
	w.create(
		&v1alpha2.Model{ObjectMeta: metav1.ObjectMeta{Name: "moving"}, Spec: v1alpha2.ModelSpec{Backend: "vllm", Source: "HF://simulated/engine"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "moving"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 8000}}}},
		endpointSlice("moving", pods[0].Status.PodIP),
	)
	w.route("inference", "moving")
	newTarget(t, w.gateway("inference", 2)).reaches(t, "moving")
	var gateways []*target
	for _, pod := range w.gatewayPods("inference") {
		gateways = append(gateways, newTarget(t, net.JoinHostPort(pod.Status.PodIP, "80")))
	}

	var times []time.Duration
	for i := range changes {
		to := pods[(i+1)%2]
		change(w, "moving", &discoveryv1.EndpointSlice{}, func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Addresses = []string{to.Status.PodIP}
		})
		begun := time.Now()
		var all sync.WaitGroup
		for _, g := range gateways {
			all.Go(func() { g.arrivesAt(t, "moving", to.Name) })
		}
		all.Wait()
		times = append(times, time.Since(begun))
		if t.Failed() {
			return
		}
	}
	slices.Sort(times)
	t.Logf("%d changes, from the API server's answer to traffic in %d gateway pods: p50 %v, p90 %v, p99 %v, longest %v", changes, len(gateways),
		times[changes/2], times[changes*9/10], times[changes*99/100], times[changes-1])
}

// arrivesAt waits until a Model is answered by an engine.
func (g *target) arrivesAt(t *testing.T, model, engine string) {
	var got string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		a, err := g.ask(t.Context(), model, "", "")
		if err != nil || a.status != http.StatusOK {
			t.Errorf("a request failed while its endpoint changed: %d %s %v", a.status, a.body, err)
			return
		}
		if got = a.engine; got == engine {
			return
		}
	}
	t.Errorf("%s still answers, not %s", got, engine)
}

func endpointSlice(service string, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8000)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for i, address := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: fmt.Sprintf("%s-%d", service, i)},
		})
	}
	return s
}
