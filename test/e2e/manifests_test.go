package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"flexinfer.ai/gateway/internal/enginesim"
)

// The functions of this file write the YAML that a user would.

// gatewayYAML is a Gateway "g" with one HTTP listener on the test's port.
const gatewayYAML = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g}
spec:
  gatewayClassName: flexinfer
  listeners:
    - {name: http, port: %PORT%, protocol: HTTP}
`

// modelYAML is a Model with annotations ("key: value" each) and further spec lines.
func modelYAML(name string, annotations []string, spec ...string) string {
	s := fmt.Sprintf("---\napiVersion: inference.flexinfer.ai/v1alpha2\nkind: Model\nmetadata:\n  name: %s\n", name)
	if len(annotations) > 0 {
		s += "  annotations:\n    " + strings.Join(annotations, "\n    ") + "\n"
	}
	s += "spec:\n  backend: vllm\n  source: HF://Qwen/Qwen3-8B\n"
	for _, line := range spec {
		s += "  " + line + "\n"
	}
	return s
}

// strategy is the routing annotation.
func strategy(name string) []string { return []string{"flexinfer.ai/routing: " + name} }

// modelRouteYAML routes a host's requests, all of them, to a Model or label.
func modelRouteYAML(name, host, model string) string {
	return fmt.Sprintf(`---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %s}
spec:
  parentRefs: [{name: g}]
  hostnames: [%q]
  rules:
    - backendRefs: [{group: inference.flexinfer.ai, kind: Model, name: %s}]
`, name, host, model)
}

// byModelNameYAML routes requests of any host by the model that the body names.
func byModelNameYAML(models ...string) string {
	s := `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: by-model-name}
spec:
  parentRefs: [{name: g}]
  rules:
`
	for _, m := range models {
		s += fmt.Sprintf(`    - matches: [{headers: [{name: X-Gateway-Model-Name, value: %s}]}]
      backendRefs: [{group: inference.flexinfer.ai, kind: Model, name: %s}]
`, m, m)
	}
	return s
}

// replica is one endpoint of a Service as its slice shows it.
type replica struct {
	address string // "ip:port"
	ready   bool
}

// serviceYAML is a Service with one slice for each replica: each has a port of its
// own, as simulated engines have. The cluster IP and port are those of the first
// replica, so that the Service itself can be dialled.
func serviceYAML(t *testing.T, name string, replicas ...replica) string {
	t.Helper()
	s := ""
	for i, r := range replicas {
		host, port, err := net.SplitHostPort(r.address)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			s += fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {name: %s}
spec:
  clusterIP: %s
  ports: [{name: http, port: %s}]
`, name, host, port)
		}
		s += fmt.Sprintf(`---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: %s-%d
  labels: {kubernetes.io/service-name: %s}
addressType: IPv4
ports: [{name: http, port: %s}]
endpoints: [{addresses: [%q], conditions: {ready: %t}}]
`, name, i, name, port, host, r.ready)
	}
	return s
}

// ready are the engines as ready replicas.
func ready(engines []*enginesim.Engine) []replica {
	r := make([]replica, len(engines))
	for i, e := range engines {
		r[i] = replica{e.Addr(), true}
	}
	return r
}

// startEngines starts n engines, named engine-1 and so on.
func startEngines(t *testing.T, n int, o enginesim.Options) []*enginesim.Engine {
	t.Helper()
	engines := make([]*enginesim.Engine, n)
	for i := range engines {
		o := o
		o.Name = fmt.Sprintf("engine-%d", i+1)
		engines[i] = enginesim.New(o)
		if err := engines[i].Start("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = engines[i].Close() })
	}
	return engines
}
