package watch

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/translate"
)

// strip removes from an object on its way into the cache what nothing reads; twice
// removes no more than once. Kinds whose statuses are written may lose metadata and
// spec, which the API server takes from what it has when a status is written, but
// nothing of their status.
func strip(object any) (any, error) {
	if m, err := meta.Accessor(object); err == nil {
		stripMetadata(m, object)
	}
	switch o := object.(type) {
	case *gwapiv1.HTTPRoute:
		stripRoute(o)
	case *corev1.Service:
		o.Status.Conditions = nil
		o.Spec.Selector = nil
	case *discoveryv1.EndpointSlice:
		stripSlice(o)
	case *corev1.Secret:
		stripSecret(o)
	case *corev1.Pod:
		stripPod(o)
	case *metav1.PartialObjectMetadata:
		o.Annotations, o.OwnerReferences, o.Finalizers = nil, nil, nil
	case *appsv1.Deployment:
		o.Spec, o.Status = appsv1.DeploymentSpec{Replicas: o.Spec.Replicas}, appsv1.DeploymentStatus{}
		o.Annotations = nil
	case *appsv1.StatefulSet:
		o.Spec, o.Status = appsv1.StatefulSetSpec{Replicas: o.Spec.Replicas}, appsv1.StatefulSetStatus{}
		o.Annotations = nil
	case *unstructured.Unstructured:
		stripWorkload(o)
	}
	return object, nil
}

func stripMetadata(m metav1.Object, object any) {
	fields := m.GetManagedFields()
	m.SetManagedFields(nil)
	if _, ok := object.(*v1alpha2.Model); ok {
		m.SetManagedFields(phaseOwners(fields))
	}
	m.SetAnnotations(ownAnnotations(m.GetAnnotations()))
}

// ownAnnotations are those that translation reads, or tells to be mistaken. Others
// may be many and large.
func ownAnnotations(annotations map[string]string) map[string]string {
	var own map[string]string
	for key, value := range annotations {
		if strings.HasPrefix(key, v1alpha2.AnnotationPrefix) || strings.HasPrefix(key, v1alpha2.MistakenPrefix) {
			if own == nil {
				own = map[string]string{}
			}
			own[key] = value
		}
	}
	return own
}

// phaseOwners are the managers of status.phase, with that field alone: whether
// the phase is somebody else's is all that is asked of them.
func phaseOwners(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	owners := []metav1.ManagedFieldsEntry{}
	for _, e := range entries {
		if v1alpha2.ManagesPhase(e) {
			fields := &metav1.FieldsV1{}
			fields.SetRawBytes([]byte(`{"f:status":{"f:phase":{}}}`))
			owners = append(owners, metav1.ManagedFieldsEntry{Manager: e.Manager, Operation: e.Operation, Subresource: e.Subresource, FieldsV1: fields})
		}
	}
	if len(owners) == 0 && len(entries) > 0 {
		// No entry at all would mean a file, whose author owns the phase.
		owners = append(owners, metav1.ManagedFieldsEntry{Manager: entries[0].Manager, Operation: entries[0].Operation})
	}
	return owners
}

// stripRoute leaves of a route that is too large to be served its parents and
// hostnames, and its size for translation to tell. No other metadata of a route is
// read, and it may be as large.
func stripRoute(r *gwapiv1.HTTPRoute) {
	n := translate.OversizeRoute(r)
	r.Annotations, r.Labels, r.OwnerReferences, r.Finalizers = nil, nil, nil, nil
	if n > 0 {
		r.Spec.Rules = nil
		r.Annotations = map[string]string{v1alpha2.AnnotationRouteBytes: strconv.Itoa(n)}
	}
}

func stripSlice(s *discoveryv1.EndpointSlice) {
	if service, ok := s.Labels[discoveryv1.LabelServiceName]; ok {
		s.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	} else {
		s.Labels = nil
	}
	s.Annotations, s.OwnerReferences = nil, nil
	for i := range s.Endpoints {
		e := s.Endpoints[i]
		s.Endpoints[i] = discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: e.Conditions}
		if e.TargetRef != nil {
			s.Endpoints[i].TargetRef = &corev1.ObjectReference{Kind: e.TargetRef.Kind, Name: e.TargetRef.Name, UID: e.TargetRef.UID}
		}
	}
}

func stripSecret(s *corev1.Secret) {
	s.Annotations, s.Labels = nil, nil
	for key := range s.Data {
		if key != corev1.TLSCertKey && key != corev1.TLSPrivateKeyKey {
			delete(s.Data, key)
		}
	}
}

// stripWorkload keeps of a workload of any kind the replicas it asks for.
func stripWorkload(o *unstructured.Unstructured) {
	kept := map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": map[string]any{
		"namespace": o.GetNamespace(), "name": o.GetName(), "uid": string(o.GetUID()), "resourceVersion": o.GetResourceVersion(),
	}}
	if n, ok, err := unstructured.NestedInt64(o.Object, "spec", "replicas"); ok && err == nil {
		kept["spec"] = map[string]any{"replicas": n}
	}
	o.Object = kept
}
