package provision

import (
	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// Settings are what every Gateway's objects share.
type Settings struct {
	// Image is the gateway image where the parameters name none.
	Image string
	// Controller is the host and port at which gateway pods reach the
	// controller, such as "flexinfer-controller.flexinfer-system.svc:8443".
	Controller string
	// Audience is that of the token by which pods prove themselves.
	Audience string
	// ControllerName tells the objects of this installation from those of another
	// one in the same cluster; empty: translate.DefaultControllerName.
	ControllerName string
	// CA is the PEM of the certificates by which pods know the controller.
	CA []byte
}

// Gateway is one accepted Gateway: a translate.Provision.
type Gateway struct {
	Object     *gwapiv1.Gateway
	Parameters v1alpha2.GatewayParametersSpec
	// Ports are those of the accepted listeners, ascending, each once; at least
	// one.
	Ports []int32
}

func (g Gateway) key() types.NamespacedName {
	return types.NamespacedName{Namespace: g.Object.Namespace, Name: g.Object.Name}
}

func (g Gateway) class() string { return string(g.Object.Spec.GatewayClassName) }

func (g Gateway) name() string { return Name(g.key(), g.class()) }
