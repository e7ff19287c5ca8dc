package provision

import (
	"bytes"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// replicasManager is the field manager that holds a Deployment's replicas until
// the autoscaler changes them. If nobody held the field when we let it go, server-
// side apply would set it back to 1.
const replicasManager = FieldManager + "-replicas"

// handOver makes the number of replicas no longer ours.
func (r *Reconciler) handOver(ctx context.Context, key objectKey, uid types.UID, replicas int32) error {
	content := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(replicas)}}}
	content.SetGroupVersionKind(key.kind)
	content.SetNamespace(key.name.Namespace)
	content.SetName(key.name.Name)
	content.SetUID(uid)
	err := r.opts.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(content), client.FieldOwner(replicasManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("cannot hand the replicas of %s over to its autoscaler: %w", key, err)
	}
	return nil
}

// ownsReplicas reports whether a Deployment's replicas are ours.
func ownsReplicas(o metav1.Object) bool {
	for _, e := range o.GetManagedFields() {
		if isOurs(e) && e.FieldsV1 != nil {
			return bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:replicas":`))
		}
	}
	return false
}

// replicasOf is a Deployment's number of replicas, otherwise where it is not known.
func replicasOf(o metav1.Object, otherwise int32) int32 {
	if d, ok := o.(*appsv1.Deployment); ok && d.Spec.Replicas != nil {
		return *d.Spec.Replicas
	}
	return otherwise
}
