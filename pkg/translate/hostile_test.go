package translate_test

import (
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/translate"
)

// hostile translates what edit makes of a Gateway and a route, compiles the Config
// and returns what was said.
func hostile(t *testing.T, edit func(*translate.Resources)) (translate.Result, string) {
	t.Helper()
	in, problems := translate.Decode("in.yaml", []byte(limitsInput))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	edit(&in)
	r := translate.Translate(in, translate.Options{Now: now})
	mustCompile(t, r)
	var said strings.Builder
	for _, w := range r.Warnings {
		fmt.Fprintf(&said, "%s %s/%s %s: %s\n", w.Kind, w.Namespace, w.Name, w.Field, w.Message)
	}
	return r, said.String()
}

// Expressions that are large, or large together, cost little and are refused; a
// route with many that are small is not.
func TestHostileExpressions(t *testing.T) {
	f := func(rules, matches int, expr func(i int) string, want string) {
		t.Helper()
		_, said := hostile(t, func(in *translate.Resources) {
			route := in.HTTPRoutes[0]
			route.Spec.Rules = nil
			for i := range rules {
				rule := gwapiv1.HTTPRouteRule{}
				for j := range matches {
					m := gwapiv1.HTTPRouteMatch{}
					for k := range 16 {
						m.Headers = append(m.Headers, gwapiv1.HTTPHeaderMatch{
							Type: new(gwapiv1.HeaderMatchRegularExpression), Name: gwapiv1.HTTPHeaderName(fmt.Sprint("h", k)), Value: expr((i*matches+j)*16 + k),
						})
					}
					rule.Matches = append(rule.Matches, m)
				}
				route.Spec.Rules = append(route.Spec.Rules, rule)
			}
		})
		if want == "" && said != "" || !strings.Contains(said, want) || len(said) > 1<<20 {
			t.Errorf("%.2000s, want %q", said, want)
		}
	}
	f(2, 64, func(int) string { return "a+b" }, "")
	f(2, 40, func(i int) string { return fmt.Sprintf("(a{1,100}){1,10}%d", i) }, "too large together")
	f(1, 4, func(i int) string { return fmt.Sprintf("%d", i) + strings.Repeat(`\pL{1000}`, 110) }, "too large (about 110")
	f(1, 1, func(int) string { return strings.Repeat("(", 1000) }, "missing closing )")
	f(1, 1, func(int) string { return strings.Repeat("(?:", 200) + "a" + strings.Repeat(")*", 200) }, "")
	f(1, 1, func(int) string { return "((a{100}){100}){100}" }, "invalid repeat count")
	f(1, 1, func(int) string { return "\xff[\x00" }, "invalid UTF-8")
}

// A private key whose parsing would take minutes is refused by its length.
func TestHostileKeys(t *testing.T) {
	f := func(key, cert []byte, want string) {
		t.Helper()
		_, said := hostile(t, func(in *translate.Resources) {
			g := in.Gateways[0]
			g.Spec.Listeners = append(g.Spec.Listeners, gwapiv1.Listener{
				Name: "https", Port: 443, Protocol: gwapiv1.HTTPSProtocolType,
				TLS: &gwapiv1.ListenerTLSConfig{CertificateRefs: []gwapiv1.SecretObjectReference{{Name: "s"}}},
			})
			in.Secrets = append(in.Secrets, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}, Type: corev1.SecretTypeTLS,
				Data: map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key},
			})
		})
		if !strings.Contains(said, want) {
			t.Errorf("%.500s, want %q", said, want)
		}
	}
	block := func(kind string, size int) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: make([]byte, size)})
	}
	f(block("RSA PRIVATE KEY", 150<<10), block("CERTIFICATE", 1), "tls.key that is too large")
	f(append(block("EC PARAMETERS", 10), block("PRIVATE KEY", 6<<10)...), block("CERTIFICATE", 1), "tls.key that is too large")
	f([]byte(strings.Repeat("x", 1<<20)), block("CERTIFICATE", 1), "tls.key that is too large")
	f(block("PRIVATE KEY", 10), block("CERTIFICATE", 1<<20), "tls.crt of")
	f(block("PRIVATE KEY", 10), block("CERTIFICATE", 10), "no usable certificate")
}

// Annotations, which nothing but the size of an object bounds, are not repeated
// back at their length, and not read for ever.
func TestHostileAnnotations(t *testing.T) {
	long := strings.Repeat("a,", 100_000) + "ä"
	r, said := hostile(t, func(in *translate.Resources) {
		for i := range 50 {
			m := &v1alpha2.Model{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("m", i), Annotations: map[string]string{
				v1alpha2.AnnotationRouting: long, v1alpha2.AnnotationRoutePriority: long, v1alpha2.AnnotationServiceLabels: long,
			}}}
			in.Models = append(in.Models, m)
		}
	})
	for _, want := range []string{"is no routing strategy", "is no priority", "so it is not read"} {
		if n := strings.Count(said, want); n != 50 {
			t.Errorf("%d Models are told %q, want 50", n, want)
		}
	}
	if len(said) > 100_000 || len(r.Models) != 50 {
		t.Errorf("%d bytes said of %d Models", len(said), len(r.Models))
	}
}

// Thousands of references to a label that thousands of Models claim.
func TestHostileLabelGroup(t *testing.T) {
	r, _ := hostile(t, func(in *translate.Resources) {
		for i := range 2000 {
			in.Models = append(in.Models, &v1alpha2.Model{
				ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("%s-%d", strings.Repeat("m", 50), i)},
				Spec:       v1alpha2.ModelSpec{ServiceLabels: []v1alpha2.ServiceLabel{"l"}, ServiceName: "s"},
			})
		}
		in.Services = append(in.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"},
			Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Port: 80}}}})
		for i := range 500 {
			route := in.HTTPRoutes[0].DeepCopy()
			route.Name = fmt.Sprint("r", i)
			route.Spec.Rules = nil
			for range 16 {
				rule := gwapiv1.HTTPRouteRule{}
				for range 16 {
					rule.BackendRefs = append(rule.BackendRefs, gwapiv1.HTTPBackendRef{BackendRef: gwapiv1.BackendRef{BackendObjectReference: gwapiv1.BackendObjectReference{
						Group: new(gwapiv1.Group(v1alpha2.GroupName)), Kind: new(gwapiv1.Kind(v1alpha2.KindModel)), Name: "l",
					}}})
				}
				route.Spec.Rules = append(route.Spec.Rules, rule)
			}
			in.HTTPRoutes = append(in.HTTPRoutes, route)
		}
	})
	for _, s := range r.HTTPRoutes {
		for _, c := range s.Status.Parents[0].Conditions {
			if s.Name.Name == "r1" && c.Type == string(gwapiv1.RouteConditionResolvedRefs) && !strings.Contains(c.Message, "and 1984 more") {
				t.Errorf("%s", c.Message)
			}
		}
	}
}

// What addresses an EndpointSlice may hold is the API server's to say; what is no
// address of a pod's family is passed over.
func TestHostileEndpoints(t *testing.T) {
	r, _ := hostile(t, func(in *translate.Resources) {
		in.HTTPRoutes[0].Spec.Rules[0].BackendRefs[0].Name = "s"
		in.Services = append(in.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"},
			Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Port: 80}}}})
		slice := func(family discoveryv1.AddressType, port int32, addresses ...string) {
			in.EndpointSlices = append(in.EndpointSlices, &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("s", len(in.EndpointSlices)), Labels: map[string]string{discoveryv1.LabelServiceName: "s"}},
				AddressType: family, Ports: []discoveryv1.EndpointPort{{Port: &port, Name: new("")}},
				Endpoints: []discoveryv1.Endpoint{{Addresses: addresses}},
			})
		}
		slice(discoveryv1.AddressTypeIPv4, 80, "metadata.internal")
		slice(discoveryv1.AddressTypeIPv4, 80)
		slice(discoveryv1.AddressTypeIPv4, 0, "10.0.0.2")
		slice(discoveryv1.AddressTypeIPv4, 70000, "10.0.0.3")
		slice(discoveryv1.AddressTypeFQDN, 80, "kubernetes.default.svc")
		slice(discoveryv1.AddressTypeIPv4, 80, "10.0.0.4:22")
		slice(discoveryv1.AddressTypeIPv4, 80, "010.0.0.5")
	})
	for _, list := range r.Configs[0].Config.EndpointLists {
		if len(list.Endpoints) > 0 {
			t.Errorf("%+v", list)
		}
	}
}

// Thousands of references to a Service of thousands of ports, most of which it has
// not, and to listeners that a Gateway of many has not.
func TestHostileReferences(t *testing.T) {
	r, _ := hostile(t, func(in *translate.Resources) {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1"}}
		for i := range 10_000 {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1)})
		}
		in.Services = append(in.Services, svc)
		for i := range 63 {
			in.Gateways[0].Spec.Listeners = append(in.Gateways[0].Spec.Listeners, gwapiv1.Listener{
				Name: gwapiv1.SectionName(fmt.Sprint("l", i)), Port: 80, Protocol: gwapiv1.HTTPProtocolType,
				Hostname: new(gwapiv1.Hostname(fmt.Sprint("h", i, ".example.com"))),
			})
		}
		for i := range 200 {
			route := in.HTTPRoutes[0].DeepCopy()
			route.Name = fmt.Sprint("r", i)
			route.Spec.Rules = nil
			for j := range 16 {
				rule := gwapiv1.HTTPRouteRule{}
				for k := range 16 {
					rule.BackendRefs = append(rule.BackendRefs, gwapiv1.HTTPBackendRef{BackendRef: gwapiv1.BackendRef{BackendObjectReference: gwapiv1.BackendObjectReference{
						Name: "s", Port: new(gwapiv1.PortNumber(9900 + j*16 + k)),
					}}})
				}
				route.Spec.Rules = append(route.Spec.Rules, rule)
			}
			for j := range 31 {
				route.Spec.ParentRefs = append(route.Spec.ParentRefs, gwapiv1.ParentReference{Name: "g", SectionName: new(gwapiv1.SectionName(fmt.Sprint("none-", j)))})
			}
			in.HTTPRoutes = append(in.HTTPRoutes, route)
		}
	})
	status := r.HTTPRoutes[1].Status
	if got := status.Parents[0].Conditions[1].Message; !strings.Contains(got, "no such port") || !strings.Contains(got, "and 9984 more") {
		t.Errorf("of ports: %s", got)
	}
	if got := status.Parents[1].Conditions[0].Message; !strings.Contains(got, "no listener with name none-0") || !strings.Contains(got, "and 48 more") {
		t.Errorf("of listeners: %s", got)
	}
	if n := len(r.Configs[0].Config.Backends); n != 101 {
		t.Errorf("%d backends, want those of ports 9900 to 10000", n)
	}
}
