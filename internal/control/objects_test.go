package control

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// conditionsOf are an object's conditions, a route's those for its only parent.
func conditionsOf(t *testing.T, o client.Object) []metav1.Condition {
	t.Helper()
	switch o := o.(type) {
	case *gwapiv1.GatewayClass:
		return o.Status.Conditions
	case *gwapiv1.Gateway:
		return o.Status.Conditions
	case *v1alpha2.Model:
		return o.Status.Conditions
	case *gwapiv1.HTTPRoute:
		if len(o.Status.Parents) != 1 {
			t.Fatalf("%d parents, want one", len(o.Status.Parents))
		}
		return o.Status.Parents[0].Conditions
	}
	t.Fatalf("no conditions in a %T", o)
	return nil
}

func gatewayAddresses(values ...string) []gwapiv1.GatewayStatusAddress {
	var out []gwapiv1.GatewayStatusAddress
	for _, v := range values {
		out = append(out, gwapiv1.GatewayStatusAddress{Type: new(gwapiv1.IPAddressType), Value: v})
	}
	return out
}
