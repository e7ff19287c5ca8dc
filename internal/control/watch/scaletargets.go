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

// maxUnknown bounds how many such kinds are remembered: users name them.
const maxUnknown = 1024

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

// watchWorkload has somebody else find out whether a kind that a Model has named can
// be watched, one kind at a time, since users may name any number of them. Where it
// can, the first objects announce themselves.
func (s *Source) watchWorkload(ctx context.Context, gvk schema.GroupVersionKind) {
	if gvk.Kind == "" || strings.Contains(gvk.Group, "/") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.unknown[gvk]) < unknownRetry {
		return
	}
	if s.asking {
		s.more = true
		return
	}
	if len(s.unknown) > maxUnknown {
		clear(s.unknown)
	}
	s.asking, s.unknown[gvk] = true, time.Now()
	go func() {
		s.ask(ctx, gvk)
		s.mu.Lock()
		more := s.more
		s.asking, s.more = false, false
		s.mu.Unlock()
		if more {
			s.opts.StatusChanged()
		}
	}()
}

// ask watches a kind if it has a scale and may be watched.
func (s *Source) ask(ctx context.Context, gvk schema.GroupVersionKind) {
	resource, ok := s.scaled(gvk)
	if !ok {
		return
	}
	// What is forbidden would be tried for ever, with a message each time.
	if may, err := s.opts.MayWatch(ctx, schema.GroupResource{Group: gvk.Group, Resource: resource}); err != nil || !may {
		s.opts.Logger.Warn("a Model's scaleTargetRef names a kind that the controller may not watch: give it a ClusterRole with the label flexinfer.ai/aggregate-to-controller, or correct the Model",
			"kind", gvk.Kind, "apiVersion", gvk.GroupVersion().String(), "error", err)
		return
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	if err := s.register(ctx, gvk, object, cache.BlockUntilSynced(false)); err != nil {
		s.opts.Logger.Warn("cannot watch the kind that a Model's scaleTargetRef names", "kind", gvk.String(), "error", err)
	}
}
