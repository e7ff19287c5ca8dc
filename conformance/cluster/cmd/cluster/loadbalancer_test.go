package main

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// TestBalanceOldCache lets a Service come before the cache has the address that
// was given to another one.
func TestBalanceOldCache(t *testing.T) {
	service := func(name string) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		return s
	}
	first, second := service("first"), service("second")
	client := fake.NewClientset(first, second)
	log := slog.New(slog.DiscardHandler)
	if err := balance(t.Context(), client, []*corev1.Service{first}, log); err != nil {
		t.Fatal(err)
	}
	third := service("third")
	if _, err := client.CoreV1().Services("default").Create(t.Context(), third, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := balance(t.Context(), client, []*corev1.Service{first, third}, log); err != nil {
		t.Fatal(err)
	}
	list, err := client.CoreV1().Services("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	holders := map[string]string{}
	for _, s := range list.Items {
		if len(s.Status.LoadBalancer.Ingress) != 1 {
			t.Fatalf("%s has the addresses %v, want one", s.Name, s.Status.LoadBalancer.Ingress)
		}
		address := s.Status.LoadBalancer.Ingress[0].IP
		if other := holders[address]; other != "" {
			t.Errorf("%s and %s have the same address %s", other, s.Name, address)
		}
		holders[address] = s.Name
	}
}

func TestAssign(t *testing.T) {
	service := func(name string, age int, change func(*corev1.Service)) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.Unix(int64(age), 0)}}
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		if change != nil {
			change(s)
		}
		return s
	}
	has := func(address string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
		}
	}
	wants := func(address string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.LoadBalancerIP = address }
	}
	f := func(name string, want map[string]string, services ...*corev1.Service) {
		t.Helper()
		got := map[string]string{}
		for _, s := range assign(services, netip.MustParsePrefix("10.0.0.0/30")) {
			got[s.Name] = ""
			for _, ingress := range s.Status.LoadBalancer.Ingress {
				got[s.Name] = ingress.IP
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	f("the older first, neither network nor broadcast address", map[string]string{"a": "10.0.0.2", "b": "10.0.0.1"},
		service("a", 2, nil), service("b", 1, nil), service("late", 3, nil))
	f("an address that is held stays and is not given again", map[string]string{"b": "10.0.0.2"},
		service("a", 1, has("10.0.0.1")), service("b", 2, nil))
	f("one that is asked for", map[string]string{"a": "10.0.0.2"}, service("a", 1, wants("10.0.0.2")))
	f("asked for, but of no pool, taken or nonsense", map[string]string{},
		service("a", 1, wants("10.9.9.9")), service("b", 2, wants("x")), service("c", 3, has("10.0.0.2")), service("d", 4, wants("10.0.0.2")))
	f("a Service that is no load balancer any more gives its address back", map[string]string{"a": ""},
		service("a", 1, func(s *corev1.Service) { has("10.0.0.1")(s); s.Spec.Type = corev1.ServiceTypeClusterIP }))
	f("neither a foreign class nor a Service that goes", map[string]string{},
		service("a", 1, func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("other") }),
		service("b", 1, func(s *corev1.Service) {
			s.DeletionTimestamp = &metav1.Time{Time: time.Unix(9, 0)}
			has("10.0.0.1")(s)
			s.Status = corev1.ServiceStatus{}
		}))
}
