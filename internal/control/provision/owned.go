package provision

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/translate"
)

// LabelController tells installations in one cluster apart: its value is the
// controllerName with "_" for "/".
const LabelController = "flexinfer.ai/controller"

func controllerLabel(controllerName string) string {
	if controllerName == "" {
		controllerName = translate.DefaultControllerName
	}
	return labelValue(strings.ReplaceAll(controllerName, "/", "_"))
}

// CacheOptions makes a cache of what an installation has provisioned and of
// nothing else. Of most kinds it holds the metadata alone.
func CacheOptions(controllerName string) cache.Options {
	return cache.Options{
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{
			LabelManagedBy: ManagedBy, LabelController: controllerLabel(controllerName),
		}),
		DefaultTransform: strip,
	}
}

// ownedKinds are the kinds of what is provisioned.
func ownedKinds() map[schema.GroupVersionKind]client.Object {
	kinds := map[schema.GroupVersionKind]client.Object{
		corev1.SchemeGroupVersion.WithKind("Service"):    &corev1.Service{},
		appsv1.SchemeGroupVersion.WithKind("Deployment"): &appsv1.Deployment{},
	}
	for _, gvk := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
	} {
		kinds[gvk] = metadataOf(gvk)
	}
	return kinds
}

func metadataOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(gvk)
	return m
}

// strip leaves of an object what is read here.
func strip(object any) (any, error) {
	m, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // a tombstone has no metadata
	}
	var own []metav1.ManagedFieldsEntry
	for _, e := range m.GetManagedFields() {
		if isOurs(e) && e.FieldsV1 != nil {
			e.FieldsV1 = canonical(e.FieldsV1)
			own = append(own, e)
		}
	}
	m.SetManagedFields(own)
	m.SetAnnotations(nil)
	switch o := object.(type) {
	case *corev1.Service:
		o.Spec = corev1.ServiceSpec{Type: o.Spec.Type, ClusterIPs: o.Spec.ClusterIPs}
		o.Status.Conditions = nil
	case *appsv1.Deployment:
		o.Spec = appsv1.DeploymentSpec{Replicas: o.Spec.Replicas}
		o.Status = appsv1.DeploymentStatus{ReadyReplicas: o.Status.ReadyReplicas, Conditions: o.Status.Conditions}
		for i := range o.Status.Conditions {
			o.Status.Conditions[i].LastUpdateTime = metav1.Time{}
		}
	}
	return object, nil
}

// canonical is the same set of fields in one order, for the API server's is
// another one than encoding/json's, through which the answer to an apply goes.
func canonical(f *metav1.FieldsV1) *metav1.FieldsV1 {
	var tree any
	if json.Unmarshal(f.GetRawBytes(), &tree) != nil {
		return f
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return f
	}
	out := &metav1.FieldsV1{}
	out.SetRawBytes(raw)
	return out
}

func isOurs(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// fieldsHash is the hash of the fields of a stripped object that are ours by what
// we applied, and of when. Whoever changes or removes one of them takes it from us,
// and who changes one in our name, a leader that does not know yet that it is none,
// changes the time: either way the hash changes.
func fieldsHash(o metav1.Object) string {
	for _, e := range o.GetManagedFields() {
		if isOurs(e) && e.FieldsV1 != nil {
			hash := sha256.New()
			_, _ = hash.Write(e.FieldsV1.GetRawBytes())
			if e.Time != nil {
				_, _ = fmt.Fprintf(hash, " %d", e.Time.Unix())
			}
			return string(hash.Sum(nil))
		}
	}
	return ""
}

// owned is what is known to be provisioned.
type owned struct {
	stores map[schema.GroupVersionKind]toolscache.Store
}

func (o *owned) start(ctx context.Context, c cache.Cache, h toolscache.ResourceEventHandler) error {
	stores := map[schema.GroupVersionKind]toolscache.Store{}
	for gvk, object := range ownedKinds() {
		informer, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("cannot watch the %ss of Gateways: %w", gvk.Kind, err)
		}
		stored, ok := informer.(interface{ GetStore() toolscache.Store })
		if !ok {
			return fmt.Errorf("BUG: informer %T has no store", informer)
		}
		if _, err := informer.AddEventHandler(h); err != nil {
			return err
		}
		stores[gvk] = stored.GetStore()
	}
	if !c.WaitForCacheSync(ctx) {
		if err := ctx.Err(); err != nil {
			return err
		}
		return fmt.Errorf("cannot read what Gateways run on from the API server: see the messages above")
	}
	o.stores = stores
	return nil
}

// get returns an object as the cache holds it; nil: it holds none.
func (o *owned) get(gvk schema.GroupVersionKind, name types.NamespacedName) client.Object {
	store := o.stores[gvk]
	if store == nil {
		return nil
	}
	object, found, err := store.GetByKey(name.String())
	if err != nil || !found {
		return nil
	}
	held, _ := object.(client.Object)
	return held
}

// all calls f with everything that is provisioned.
func (o *owned) all(f func(schema.GroupVersionKind, client.Object)) {
	for gvk, store := range o.stores {
		for _, object := range store.List() {
			if held, ok := object.(client.Object); ok {
				f(gvk, held)
			}
		}
	}
}

// ownerOf is the Gateway that an object belongs to; nil: it belongs to none.
func ownerOf(o metav1.Object) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.Kind != "Gateway" || !strings.HasPrefix(ref.APIVersion, gwapiv1.GroupName+"/") {
		return nil
	}
	return ref
}

// ownedHandler hears of what happens to provisioned objects.
type ownedHandler struct{ wake, changed func() }

// OnAdd hears of an object that is new, or was there.
func (h ownedHandler) OnAdd(any, bool) { h.wake(); h.changed() }

// OnDelete hears of an object that is gone.
func (h ownedHandler) OnDelete(any) { h.wake(); h.changed() }

// OnUpdate hears of a change.
func (h ownedHandler) OnUpdate(before, after any) {
	h.wake()
	switch a := before.(type) {
	case *corev1.Service:
		if b, ok := after.(*corev1.Service); !ok || !equality.Semantic.DeepEqual(a.Spec, b.Spec) || !equality.Semantic.DeepEqual(a.Status, b.Status) {
			h.changed()
		}
	case *appsv1.Deployment:
		if b, ok := after.(*appsv1.Deployment); !ok || !equality.Semantic.DeepEqual(a.Spec, b.Spec) || !equality.Semantic.DeepEqual(a.Status, b.Status) {
			h.changed()
		}
	}
}
