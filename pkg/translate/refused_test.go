package translate_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"flexinfer.ai/gateway/pkg/translate"
)

// A refused resource is given to the data plane again as soon as it differs.
func TestRefusedUntilChanged(t *testing.T) {
	in := func(hostname string) translate.Resources {
		resources, problems := translate.Decode("in.yaml", []byte(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw, namespace: infra}
spec: {gatewayClassName: ours, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: infra}
spec:
  parentRefs: [{name: gw}]
  rules: [{filters: [{type: RequestRedirect, requestRedirect: {hostname: `+hostname+`}}]}]
`))
		if len(problems) > 0 {
			t.Fatal(problems[0])
		}
		return resources
	}
	opts := translate.Options{Now: now, ImpliedClass: "ours"}
	whole := translate.Translate(in("a.example.com"), opts).Configs[0].Complete
	refusal, ok := translate.NewRefusal("HTTPRoute/infra/r", "no", &whole)
	if !ok {
		t.Fatal("the route is not in the Config")
	}
	if _, ok := translate.NewRefusal("HTTPRoute/infra/other", "no", &whole); ok {
		t.Error("a refusal of what is not there")
	}
	opts.Refused = map[types.NamespacedName][]translate.Refusal{{Namespace: "infra", Name: "gw"}: {refusal}}
	f := func(hostname string, routes, left int) {
		t.Helper()
		r := translate.Translate(in(hostname), opts)
		if len(r.Configs[0].Config.Routes) != routes || len(r.Configs[0].Complete.Routes) != 1 || len(r.LeftOut) != left {
			t.Errorf("hostname %s: %d routes, %d complete, left out %v", hostname, len(r.Configs[0].Config.Routes), len(r.Configs[0].Complete.Routes), r.LeftOut)
		}
	}
	f("a.example.com", 0, 1)
	f("b.example.com", 1, 0)
}
