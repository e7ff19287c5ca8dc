package translate_test

import (
	"fmt"
	"strings"
	"testing"

	"flexinfer.ai/gateway/pkg/translate"
)

// manyObjects is a cluster of 2,000 routes on 4 listeners and 500 Models with 10
// endpoints each.
func manyObjects(b *testing.B) translate.Resources {
	var in strings.Builder
	in.WriteString(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw, namespace: infra}
spec:
  gatewayClassName: ours
  listeners:
  - {name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
  - {name: b, port: 80, protocol: HTTP, hostname: "*.example.com", allowedRoutes: {namespaces: {from: All}}}
  - {name: c, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
  - {name: d, port: 8080, protocol: HTTP, hostname: "*.example.org", allowedRoutes: {namespaces: {from: All}}}
`)
	for i := range 500 {
		fmt.Fprintf(&in, `---
apiVersion: inference.flexinfer.ai/v1alpha2
kind: Model
metadata: {name: m%d, namespace: ns%d, annotations: {flexinfer.ai/routing: prefix}}
spec: {backend: vllm, source: HF://org/m, serviceLabels: [group%d]}
---
apiVersion: v1
kind: Service
metadata: {name: m%d, namespace: ns%d}
spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 8000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: m%d, namespace: ns%d, labels: {kubernetes.io/service-name: m%d}}
addressType: IPv4
ports: [{name: http, port: 8000}]
endpoints:
`, i, i%20, i%50, i, i%20, i, i%20, i)
		for j := range 10 {
			fmt.Fprintf(&in, "- {addresses: [10.%d.%d.%d], targetRef: {kind: Pod, uid: u-%d-%d}}\n", i/250, i%250, j+1, i, j)
		}
	}
	for i := range 2000 {
		fmt.Fprintf(&in, `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r%d, namespace: ns%d}
spec:
  parentRefs: [{name: gw, namespace: infra}]
  hostnames: [h%d.example.com, h%d.example.org]
  rules:
  - matches: [{path: {value: /v1}, headers: [{name: X-Gateway-Model-Name, value: m%d}]}]
    backendRefs: [{group: inference.flexinfer.ai, kind: Model, name: m%d}]
  - backendRefs: [{group: inference.flexinfer.ai, kind: Model, name: group%d}]
`, i, i%20, i, i, i%500, i%500, i%50)
	}
	resources, problems := translate.Decode("many.yaml", []byte(in.String()))
	if len(problems) > 0 {
		b.Fatal(problems[0])
	}
	return resources
}

// BenchmarkTranslate translates 2,000 routes with 5,000 endpoints.
func BenchmarkTranslate(b *testing.B) {
	resources := manyObjects(b)
	opts := translate.Options{Now: now, ImpliedClass: "ours"}
	result := translate.Translate(resources, opts)
	if n := len(result.Configs[0].Config.Routes); n != 2000 {
		b.Fatalf("%d routes are served, want 2000", n)
	}
	endpoints := 0
	for _, l := range result.Configs[0].Config.EndpointLists {
		endpoints += len(l.Endpoints)
	}
	if endpoints != 5000 {
		b.Fatalf("%d endpoints are served, want 5000", endpoints)
	}
	b.ReportAllocs()
	for b.Loop() {
		translate.Translate(resources, opts)
	}
}
