package watch

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// handler announces changes that call for a translation.
type handler struct{ s *Source }

func (h handler) OnAdd(object any, _ bool) { h.announce(object) }

func (h handler) OnUpdate(before, after any) {
	switch {
	case h.same(before, after):
	case sameButStatus(before, after):
		h.s.opts.StatusChanged()
	default:
		h.announce(after)
	}
}

func (h handler) OnDelete(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	h.announce(object)
}

func (h handler) announce(object any) {
	if h.s.interest.Load().concerns(object) {
		h.s.opts.Changed()
	}
}

// same reports whether nothing has changed that translation reads: a resync, a
// namespace's annotations, a workload's status.
func (h handler) same(before, after any) bool {
	if a, ok := before.(metav1.Object); ok {
		if b, ok := after.(metav1.Object); ok && a.GetResourceVersion() == b.GetResourceVersion() && a.GetUID() == b.GetUID() {
			return true
		}
	}
	if a, ok := before.(*metav1.PartialObjectMetadata); ok {
		b, ok := after.(*metav1.PartialObjectMetadata)
		return ok && maps.Equal(a.Labels, b.Labels)
	}
	if a, ok := before.(*corev1.Pod); ok {
		b, ok := after.(*corev1.Pod)
		return ok && a.Status.Phase == b.Status.Phase && gatewayPod(a) == gatewayPod(b)
	}
	if _, a, ok := replicasOf(before); ok {
		_, b, _ := replicasOf(after)
		return a == b
	}
	return false
}

// sameButStatus reports whether only a status has changed that says nothing but
// what became of the object: most often it is the one written last.
func sameButStatus(before, after any) bool {
	switch b := after.(type) {
	case *gwapiv1.GatewayClass, *gwapiv1.Gateway, *gwapiv1.HTTPRoute:
	case *v1alpha2.Model:
		if a, ok := before.(*v1alpha2.Model); !ok || !sameButConditions(a, b) {
			return false
		}
	default:
		return false
	}
	a, ok := before.(metav1.Object)
	b, _ := after.(metav1.Object)
	return ok && a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() &&
		maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp())
}

// sameButConditions reports whether what others say in a Model's status is the
// same: its phase and when it was last active.
func sameButConditions(a, b *v1alpha2.Model) bool {
	return a.Status.Phase == b.Status.Phase && a.Status.LastActiveTime.Equal(b.Status.LastActiveTime) &&
		equality.Semantic.DeepEqual(a.ManagedFields, b.ManagedFields)
}
