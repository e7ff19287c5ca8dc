package translate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/translate"
)

const limitsInput = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: flexinfer}
spec: {controllerName: flexinfer.ai/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: a, name: g}
spec:
  gatewayClassName: flexinfer
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: a, name: r}
spec:
  parentRefs: [{name: g}]
  rules: [{backendRefs: [{name: none, port: 80}]}]
`

// TestStatusesFit keeps statuses within what an API server takes, whatever the
// objects hold: otherwise none of their conditions could be written.
func TestStatusesFit(t *testing.T) {
	in, problems := translate.Decode("in.yaml", []byte(limitsInput))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	route := in.HTTPRoutes[0]
	for i := range 40 {
		m := gwapiv1.HTTPHeaderMatch{Name: "X", Type: new(gwapiv1.HeaderMatchType("ä" + strings.Repeat("ö", 1200))), Value: fmt.Sprint(i)}
		rule := gwapiv1.HTTPRouteRule{Matches: []gwapiv1.HTTPRouteMatch{{Headers: []gwapiv1.HTTPHeaderMatch{m}}}}
		route.Spec.Rules = append(route.Spec.Rules, rule)
		route.Status.Parents = append(route.Status.Parents, gwapiv1.RouteParentStatus{
			ControllerName: "example.com/other", ParentRef: gwapiv1.ParentReference{Name: gwapiv1.ObjectName(fmt.Sprint("g", i))},
		})
	}
	route.Status.Parents = route.Status.Parents[:31]
	route.Spec.ParentRefs = append(route.Spec.ParentRefs, gwapiv1.ParentReference{Name: "g", SectionName: new(gwapiv1.SectionName("http"))})
	var addresses []gwapiv1.GatewayStatusAddress
	for i := range 20 {
		addresses = append(addresses, gwapiv1.GatewayStatusAddress{Type: new(gwapiv1.IPAddressType), Value: fmt.Sprint("10.0.0.", i)})
	}
	r := translate.Translate(in, translate.Options{Now: now, Addresses: map[types.NamespacedName][]gwapiv1.GatewayStatusAddress{{Namespace: "a", Name: "g"}: addresses}})

	if n := len(r.Gateways[0].Status.Addresses); n != 16 {
		t.Errorf("%d addresses, at most 16 can be written", n)
	}
	parents := r.HTTPRoutes[0].Status.Parents
	if len(parents) != 32 {
		t.Fatalf("%d parents, 32 can be written", len(parents))
	}
	for _, c := range parents[31].Conditions {
		if len(c.Message) > 2048 || !utf8.ValidString(c.Message) {
			t.Errorf("%s: a message of %d bytes, valid UTF-8: %v", c.Type, len(c.Message), utf8.ValidString(c.Message))
		}
	}
	if accepted := parents[31].Conditions[0]; !strings.HasSuffix(parents[31].Conditions[2].Message, "…") {
		t.Errorf("nothing was cut: %+v", accepted)
	}
}

// A route that is too large is refused by every parent of ours, whether its rules
// are there or an annotation says how large they were, and others are served.
func TestOversizeRoute(t *testing.T) {
	in, problems := translate.Decode("in.yaml", []byte(limitsInput))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	large := in.HTTPRoutes[0].DeepCopy()
	large.Name = "large"
	large.Spec.ParentRefs = append(large.Spec.ParentRefs, gwapiv1.ParentReference{Name: "g", SectionName: new(gwapiv1.SectionName("none"))})
	for i := range 16 {
		ref := gwapiv1.HTTPBackendRef{BackendRef: gwapiv1.BackendRef{BackendObjectReference: gwapiv1.BackendObjectReference{
			Name: gwapiv1.ObjectName(fmt.Sprint("large-", i)), Port: new(gwapiv1.PortNumber(80)),
		}}}
		m := gwapiv1.HTTPRouteMatch{Headers: headers(16, strings.Repeat("v", 4096))}
		large.Spec.Rules = append(large.Spec.Rules, gwapiv1.HTTPRouteRule{Matches: []gwapiv1.HTTPRouteMatch{m}, BackendRefs: []gwapiv1.HTTPBackendRef{ref}})
	}
	size := translate.OversizeRoute(large)
	stripped := large.DeepCopy()
	stripped.Name, stripped.Spec.Rules = "stripped", nil
	stripped.Annotations = map[string]string{v1alpha2.AnnotationRouteBytes: fmt.Sprint(size)}
	in.HTTPRoutes = append(in.HTTPRoutes, large, stripped)
	r := translate.Translate(in, translate.Options{Now: now})

	want := fmt.Sprintf("the spec takes %d bytes as JSON, and at most 131072 are served: split it into several HTTPRoutes", size)
	for _, s := range r.HTTPRoutes {
		if s.Name.Name == "r" {
			if c := s.Status.Parents[0].Conditions[0]; c.Status != "True" {
				t.Errorf("%s: %+v", s.Name, c)
			}
			continue
		}
		if len(s.Status.Parents) != 2 {
			t.Fatalf("%s: %d parents", s.Name, len(s.Status.Parents))
		}
		for _, p := range s.Status.Parents {
			if c := p.Conditions[0]; len(p.Conditions) != 1 || c.Type != "Accepted" || c.Status != "False" || c.Reason != "UnsupportedValue" || c.Message != want {
				t.Errorf("%s: %+v, want %q", s.Name, p.Conditions, want)
			}
		}
	}
	if n := r.Gateways[0].Status.Listeners[0].AttachedRoutes; n != 1 || len(r.HTTPRoutes) != 3 {
		t.Errorf("%d of %d routes attached, want 1 of 3", n, len(r.HTTPRoutes))
	}
	told := map[string]string{}
	for _, w := range r.Warnings {
		told[w.Name] += w.Message
	}
	if told["large"] != want || told["stripped"] != want {
		t.Errorf("warnings: %q", told)
	}
	config, err := json.Marshal(r.Configs)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(config, []byte("large")) || bytes.Contains(config, []byte("stripped")) || !bytes.Contains(config, []byte("a/r")) {
		t.Errorf("the configuration: %.2000s", config)
	}
}

func headers(n int, value string) (out []gwapiv1.HTTPHeaderMatch) {
	for i := range n {
		out = append(out, gwapiv1.HTTPHeaderMatch{Name: gwapiv1.HTTPHeaderName(fmt.Sprint("X-", i)), Value: value})
	}
	return out
}

// The size of a route is that of its JSON, with whatever texts it is filled and
// whatever its elements are.
func TestRouteSize(t *testing.T) {
	f := func(name string, fill func(s *gwapiv1.HTTPRouteSpec, n int)) {
		t.Helper()
		var small, large int
		for n := 1; n < 256<<10 && large < 3; n += n/8 + 1 {
			r := &gwapiv1.HTTPRoute{}
			fill(&r.Spec, n)
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if err := e.Encode(&r.Spec); err != nil {
				t.Fatal(err)
			}
			want := b.Len() - 1
			if want <= translate.MaxRouteBytes {
				want = 0
				small++
			} else {
				large++
			}
			if got := translate.OversizeRoute(r); got != want {
				t.Errorf("%s × %d: %d, want %d", name, n, got, want)
			}
		}
		if small == 0 || large == 0 {
			t.Errorf("%s: %d small and %d large", name, small, large)
		}
	}
	for _, text := range []string{"v", "<", "\x01", "\xff", "\u2028", "\U0001F4A9"} {
		places := map[string]func(s *gwapiv1.HTTPRouteSpec, text string){
			"hostname": func(s *gwapiv1.HTTPRouteSpec, text string) { s.Hostnames = []gwapiv1.Hostname{gwapiv1.Hostname(text)} },
			"header": func(s *gwapiv1.HTTPRouteSpec, text string) {
				s.Rules = []gwapiv1.HTTPRouteRule{{Matches: []gwapiv1.HTTPRouteMatch{{Headers: headers(1, text)}}}}
			},
			"path": func(s *gwapiv1.HTTPRouteSpec, text string) {
				s.Rules = []gwapiv1.HTTPRouteRule{{Matches: []gwapiv1.HTTPRouteMatch{{Path: &gwapiv1.HTTPPathMatch{Value: &text}}}}}
			},
			"query": func(s *gwapiv1.HTTPRouteSpec, text string) {
				s.Rules = []gwapiv1.HTTPRouteRule{{Matches: []gwapiv1.HTTPRouteMatch{{QueryParams: []gwapiv1.HTTPQueryParamMatch{{Value: text}}}}}}
			},
			"backend": func(s *gwapiv1.HTTPRouteSpec, text string) {
				ref := gwapiv1.BackendObjectReference{Name: gwapiv1.ObjectName(text)}
				s.Rules = []gwapiv1.HTTPRouteRule{{BackendRefs: []gwapiv1.HTTPBackendRef{{BackendRef: gwapiv1.BackendRef{BackendObjectReference: ref}}}}}
			},
			"filter": func(s *gwapiv1.HTTPRouteSpec, text string) {
				m := &gwapiv1.HTTPHeaderFilter{Set: []gwapiv1.HTTPHeader{{Name: "X", Value: text}}}
				s.Rules = []gwapiv1.HTTPRouteRule{{Filters: []gwapiv1.HTTPRouteFilter{{RequestHeaderModifier: m}}}}
			},
		}
		for name, fill := range places {
			f(fmt.Sprintf("%s %q", name, text), func(s *gwapiv1.HTTPRouteSpec, n int) { fill(s, strings.Repeat(text, n)) })
		}
	}

	match := gwapiv1.HTTPRouteMatch{
		Path: &gwapiv1.HTTPPathMatch{Type: new(gwapiv1.PathMatchType("")), Value: new("")}, Method: new(gwapiv1.HTTPMethod("")),
		Headers:     []gwapiv1.HTTPHeaderMatch{{Type: new(gwapiv1.HeaderMatchType(""))}},
		QueryParams: []gwapiv1.HTTPQueryParamMatch{{Type: new(gwapiv1.QueryParamMatchType(""))}},
	}
	ref := gwapiv1.HTTPBackendRef{BackendRef: gwapiv1.BackendRef{Weight: new(int32(math.MinInt32)), BackendObjectReference: gwapiv1.BackendObjectReference{
		Group: new(gwapiv1.Group("")), Kind: new(gwapiv1.Kind("")), Namespace: new(gwapiv1.Namespace("")), Port: new(gwapiv1.PortNumber(math.MinInt32)),
	}}}
	parent := gwapiv1.ParentReference{
		Group: new(gwapiv1.Group("")), Kind: new(gwapiv1.Kind("")), Namespace: new(gwapiv1.Namespace("")),
		SectionName: new(gwapiv1.SectionName("")), Port: new(gwapiv1.PortNumber(math.MinInt32)),
	}
	rule := gwapiv1.HTTPRouteRule{Name: new(gwapiv1.SectionName("")), Matches: []gwapiv1.HTTPRouteMatch{{}}, BackendRefs: []gwapiv1.HTTPBackendRef{{}}}
	f("matches", func(s *gwapiv1.HTTPRouteSpec, n int) {
		s.Rules = []gwapiv1.HTTPRouteRule{{Matches: slices.Repeat([]gwapiv1.HTTPRouteMatch{match}, n)}}
	})
	f("headers", func(s *gwapiv1.HTTPRouteSpec, n int) {
		s.Rules = []gwapiv1.HTTPRouteRule{{Matches: []gwapiv1.HTTPRouteMatch{{Headers: slices.Repeat(match.Headers, n)}}}}
	})
	f("backends", func(s *gwapiv1.HTTPRouteSpec, n int) {
		s.Rules = []gwapiv1.HTTPRouteRule{{BackendRefs: slices.Repeat([]gwapiv1.HTTPBackendRef{ref}, n)}}
	})
	f("parents", func(s *gwapiv1.HTTPRouteSpec, n int) {
		s.ParentRefs = slices.Repeat([]gwapiv1.ParentReference{parent}, n)
	})
	f("hostnames", func(s *gwapiv1.HTTPRouteSpec, n int) { s.Hostnames = make([]gwapiv1.Hostname, n) })
	f("rules", func(s *gwapiv1.HTTPRouteSpec, n int) { s.Rules = slices.Repeat([]gwapiv1.HTTPRouteRule{rule}, n) })
}
