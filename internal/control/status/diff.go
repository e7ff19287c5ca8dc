package status

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/translate"
)

// Update is one object whose status is to be written.
type Update struct {
	Kind string
	// Held is the object as it was translated; Want is a copy with the status
	// that it should have. Both share memory with the cache: read them only.
	Held, Want client.Object
}

// Key names the object.
func (u Update) Key() Key {
	return Key{u.Kind, types.NamespacedName{Namespace: u.Held.GetNamespace(), Name: u.Held.GetName()}}
}

// Key is an object's kind and name.
type Key struct {
	Kind string
	types.NamespacedName
}

// Diff finds the objects of a translation's input whose status differs from the
// one that its result asks for: classes first, then Gateways, Models and routes,
// each by name.
// Cost: O(objects), about 2 µs each.
func Diff(in translate.Resources, result translate.Result) []Update {
	var out []Update
	out = diffKind(out, "GatewayClass", in.GatewayClasses, result.GatewayClasses,
		func(o *gwapiv1.GatewayClass) *gwapiv1.GatewayClassStatus { return &o.Status })
	out = diffKind(out, "Gateway", in.Gateways, result.Gateways,
		func(o *gwapiv1.Gateway) *gwapiv1.GatewayStatus { return &o.Status })
	out = diffKind(out, v1alpha2.KindModel, in.Models, result.Models,
		func(o *v1alpha2.Model) *v1alpha2.ModelStatus { return &o.Status })
	return diffKind(out, "HTTPRoute", in.HTTPRoutes, result.HTTPRoutes,
		func(o *gwapiv1.HTTPRoute) *gwapiv1.HTTPRouteStatus { return &o.Status })
}

type object[T any] interface {
	*T
	client.Object
}

func diffKind[T, S any, P object[T]](out []Update, kind string, objects []P, want []translate.ObjectStatus[S], status func(P) *S) []Update {
	byName := make(map[types.NamespacedName]P, len(objects))
	for _, o := range objects {
		byName[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] = o
	}
	for i := range want {
		held := byName[want[i].Name]
		if held == nil || held.GetGeneration() != want[i].Generation || held.GetDeletionTimestamp() != nil {
			continue
		}
		if sameStatus(status(held), &want[i].Status) {
			continue
		}
		changed := P(new(T))
		*changed = *held
		*status(changed) = want[i].Status
		out = append(out, Update{Kind: kind, Held: held, Want: changed})
	}
	return out
}

// sameStatus compares by meaning: absent and empty lists are the same.
func sameStatus(a, b any) bool {
	if a, ok := a.(*gwapiv1.HTTPRouteStatus); ok {
		return sameParents(a.Parents, b.(*gwapiv1.HTTPRouteStatus).Parents)
	}
	return equality.Semantic.DeepEqual(a, b)
}

// sameParents and sameConditions are what DeepEqual does, without reflection:
// routes are many.
func sameParents(a, b []gwapiv1.RouteParentStatus) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ControllerName != b[i].ControllerName || !sameConditions(a[i].Conditions, b[i].Conditions) ||
			!equality.Semantic.DeepEqual(a[i].ParentRef, b[i].ParentRef) {
			return false
		}
	}
	return true
}

func sameConditions(a, b []metav1.Condition) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.Type != y.Type || x.Status != y.Status || x.Reason != y.Reason || x.Message != y.Message ||
			x.ObservedGeneration != y.ObservedGeneration || !x.LastTransitionTime.Equal(&y.LastTransitionTime) {
			return false
		}
	}
	return true
}
