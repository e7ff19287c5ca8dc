package provision

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// surplus finds the provisioned objects that no Gateway needs any more, as
// metadata. What belongs to a Gateway that is gone is the garbage collector's. A
// Gateway that lacks something keeps what it had before.
func (w *Wanted) surplus(o *owned, states []*gatewayState) []client.Object {
	needed := map[objectKey]bool{}
	complete := map[types.UID]bool{}
	for _, state := range states {
		complete[state.uid] = state.failures == 0
		for _, d := range state.desired {
			needed[d.key] = true
		}
	}
	left := map[types.UID]*gwapiv1.Gateway{}
	for _, g := range w.All {
		if _, wanted := complete[g.UID]; !wanted && !slices.Contains(w.Held, types.NamespacedName{Namespace: g.Namespace, Name: g.Name}) {
			left[g.UID] = g
		}
	}
	var surplus []client.Object
	o.all(func(kind schema.GroupVersionKind, object client.Object) {
		ref := ownerOf(object)
		if ref == nil || object.GetDeletionTimestamp() != nil {
			return
		}
		unneeded := complete[ref.UID] && !needed[objectKey{kind, client.ObjectKeyFromObject(object)}]
		if g := left[ref.UID]; g != nil && object.GetLabels()[LabelGatewayClass] != labelValue(string(g.Spec.GatewayClassName)) {
			unneeded = true
		}
		if unneeded {
			m := metadataOf(kind)
			m.Namespace, m.Name, m.UID = object.GetNamespace(), object.GetName(), object.GetUID()
			surplus = append(surplus, m)
		}
	})
	return surplus
}
