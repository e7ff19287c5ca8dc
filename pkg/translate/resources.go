package translate

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// Resources is the whole input of Translate: every object that takes part, in
// any order, each once. Translate only reads them. API defaults are expected to
// be filled in, as an API server and Decode do.
//
// A namespace that no Namespace object declares exists all the same, with the
// one label kubernetes.io/metadata.name, so that files need not declare it.
type Resources struct {
	GatewayClasses  []*gwapiv1.GatewayClass
	Gateways        []*gwapiv1.Gateway
	HTTPRoutes      []*gwapiv1.HTTPRoute
	ReferenceGrants []*gwapiv1.ReferenceGrant
	Models          []*v1alpha2.Model
	// GatewayParameters are those that classes and Gateways may name.
	GatewayParameters []*v1alpha2.GatewayParameters
	Services          []*corev1.Service
	EndpointSlices    []*discoveryv1.EndpointSlice
	Secrets           []*corev1.Secret
	ConfigMaps        []*corev1.ConfigMap
	Namespaces        []*corev1.Namespace
	ScaleTargets      []ScaleTarget
}

// ScaleTarget is the scale of a workload that a Model may be scaled through.
type ScaleTarget struct {
	APIVersion, Kind, Namespace, Name string
	// Replicas is the number that the workload's spec asks for.
	Replicas int32
}

// DefaultControllerName is the controllerName that makes a GatewayClass ours.
const DefaultControllerName = "flexinfer.ai/gateway-controller"

// Options is what Translate must know of the process around it. The zero value
// translates for a cluster, as DefaultControllerName, at time zero.
type Options struct {
	// ControllerName makes GatewayClasses ours; empty: DefaultControllerName.
	ControllerName string
	// Now is the lastTransitionTime of conditions whose status changes.
	Now metav1.Time
	// FieldManager is the name under which the caller writes Model statuses; a
	// status.phase that another manager wrote is obeyed.
	FieldManager string
	// ImpliedClass is a class name that is ours where no GatewayClass object of
	// that name exists; empty: none. It spares file users one document.
	ImpliedClass string
	// SharedAddress: all Gateways are served on one address, so that a port
	// belongs to the oldest Gateway that names it.
	SharedAddress bool
	// Addresses are the addresses that each Gateway is reachable at. A nil map:
	// the caller assigns none, and no status speaks of addresses.
	Addresses map[types.NamespacedName][]gwapiv1.GatewayStatusAddress
	// Pending says why a Gateway's configuration is not yet served by its data
	// plane; Gateways that are not in it count as programmed.
	Pending map[types.NamespacedName]string
	// Refused are resources that a Gateway's data plane could not serve. One that
	// is still the same is left out of the Gateway's Config, as Config.Without
	// does, and its object's status says why.
	Refused map[types.NamespacedName][]Refusal
}

func (o Options) controllerName() gwapiv1.GatewayController {
	if o.ControllerName == "" {
		return DefaultControllerName
	}
	return gwapiv1.GatewayController(o.ControllerName)
}
