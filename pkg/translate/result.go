package translate

import (
	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/routing"
)

// Result is everything that follows from Resources. Every list is sorted by
// namespace and name; nothing in it shares memory that Translate will touch
// again, though unchanged parts of statuses may be those of the input objects.
type Result struct {
	// Configs holds one Config for each accepted Gateway.
	Configs []GatewayConfig
	// Provisions say what the same Gateways need to run on. Held are the Gateways
	// of our classes that are not accepted: what already runs for them is to be
	// left as it is, until they are mended or go.
	Provisions []Provision
	Held       []types.NamespacedName

	// The statuses of all objects that are ours to report on, whether or not
	// they differ from what the object holds.
	GatewayClasses []ObjectStatus[gwapiv1.GatewayClassStatus]
	Gateways       []ObjectStatus[gwapiv1.GatewayStatus]
	HTTPRoutes     []ObjectStatus[gwapiv1.HTTPRouteStatus]
	Models         []ObjectStatus[v1alpha2.ModelStatus]

	// LeftOut are the resources of Options.Refused that are still as they were
	// refused, in the order given.
	LeftOut []LeftOut

	// Warnings are all mistakes found, those that became conditions included.
	Warnings []Warning
}

// GatewayConfig is what one Gateway's data plane serves.
type GatewayConfig struct {
	Gateway    types.NamespacedName
	Generation int64 // of the Gateway object
	Config     routing.Config
	// Complete is Config with what the data plane refused (Options.Refused); the
	// same where nothing was left out.
	Complete routing.Config
}

// ObjectStatus is the complete status that an object should have.
type ObjectStatus[S any] struct {
	Name       types.NamespacedName
	Generation int64 // of the object it was derived from
	Status     S
}

// Warning is one mistake in one object.
type Warning struct {
	Kind, Namespace, Name string
	// Field is the path of the offending field, such as
	// "spec.rules[0].backendRefs[1]"; empty: the object as a whole.
	Field string
	// Message says what is wrong and how to mend it.
	Message string
	// Ownerless: the mistake leaves the object without a controller whose status
	// on it could say so.
	Ownerless bool
}

// String is one line for people: "HTTPRoute default/chat: spec.rules[0]: …".
func (w Warning) String() string {
	s := w.Kind + " "
	if w.Namespace != "" {
		s += w.Namespace + "/"
	}
	s += w.Name + ": "
	if w.Field != "" {
		s += w.Field + ": "
	}
	return s + w.Message
}
