package translate_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

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
		m := gwapiv1.HTTPHeaderMatch{Name: "X", Type: new(gwapiv1.HeaderMatchType("ä" + strings.Repeat("ö", 3000))), Value: fmt.Sprint(i)}
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
