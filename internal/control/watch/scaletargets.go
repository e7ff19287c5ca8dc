package watch

import (
	"context"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"flexinfer.ai/gateway/pkg/translate"
)

// unknownRetry is how long a workload kind that cannot be watched is left alone.
const unknownRetry = time.Minute

// replicasOf reads a workload's name and the replicas that it asks for: 1 where
// it does not say, as the API server fills in. ok is false for other objects.
func replicasOf(object any) (name target, replicas int32, ok bool) {
	number := func(n *int32) int32 {
		if n == nil {
			return 1
		}
		return *n
	}
	switch o := object.(type) {
	case *appsv1.Deployment:
		return target{"apps/v1", "Deployment", o.Namespace, o.Name}, number(o.Spec.Replicas), true
	case *appsv1.StatefulSet:
		return target{"apps/v1", "StatefulSet", o.Namespace, o.Name}, number(o.Spec.Replicas), true
	case *unstructured.Unstructured:
		n, found, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
		if err != nil || !found {
			n = 1
		}
		return target{o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName()}, int32(n), true
	}
	return target{}, 0, false
}

// scaleTargets are the workloads that Models name, as far as they are known.
func (s *Source) scaleTargets(ctx context.Context, in *interest) []translate.ScaleTarget {
	var out []translate.ScaleTarget
	for name := range in.targets {
		gvk := schema.FromAPIVersionAndKind(name.apiVersion, name.kind)
		store := s.store(gvk)
		if store == nil {
			s.watchWorkload(ctx, gvk)
			continue
		}
		object, found, err := store.GetByKey(name.namespace + "/" + name.name)
		if err != nil || !found {
			continue
		}
		if _, n, ok := replicasOf(object); ok {
			out = append(out, translate.ScaleTarget{
				APIVersion: name.apiVersion, Kind: name.kind, Namespace: name.namespace, Name: name.name, Replicas: n,
			})
		}
	}
	return out
}

// watchWorkload starts to watch a kind that a Model has named. It does not wait:
// the first objects announce themselves. A kind that is not known is tried again
// after a while.
func (s *Source) watchWorkload(ctx context.Context, gvk schema.GroupVersionKind) {
	if gvk.Kind == "" || strings.Contains(gvk.Group, "/") || time.Since(s.unknown[gvk]) < unknownRetry {
		return
	}
	if !s.workloads(gvk) {
		s.unknown[gvk] = time.Now()
		return
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	if err := s.register(ctx, gvk, object, cache.BlockUntilSynced(false)); err != nil {
		s.unknown[gvk] = time.Now()
		s.opts.Logger.Warn("cannot watch the kind that a Model's scaleTargetRef names", "kind", gvk.String(), "error", err)
	}
}
