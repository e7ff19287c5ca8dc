package provision

import (
	"testing"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// TestWantedAddress asks the load balancer for the first address of the Gateway,
// and for none where the Service has none to give.
func TestWantedAddress(t *testing.T) {
	f := func(parameters, want string, addresses ...gwapiv1.GatewaySpecAddress) {
		t.Helper()
		g := gateway("static", parameters, 80)
		g.Object.Spec.Addresses = addresses
		if got := service(g).Spec.LoadBalancerIP; got != want {
			t.Errorf("loadBalancerIP %q, want %q", got, want)
		}
	}
	ip, hostname := new(gwapiv1.IPAddressType), new(gwapiv1.HostnameAddressType)
	f(`{}`, "")
	f(`{}`, "", gwapiv1.GatewaySpecAddress{Type: ip})
	f(`{}`, "10.1.2.3", gwapiv1.GatewaySpecAddress{Type: ip, Value: "10.1.2.3"}, gwapiv1.GatewaySpecAddress{Type: ip, Value: "10.1.2.4"})
	f(`{}`, "10.1.2.3", gwapiv1.GatewaySpecAddress{Type: hostname, Value: "a.example"}, gwapiv1.GatewaySpecAddress{Value: "10.1.2.3"})
	f(`service: {type: ClusterIP}`, "", gwapiv1.GatewaySpecAddress{Type: ip, Value: "10.1.2.3"})
}
