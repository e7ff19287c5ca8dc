package translate

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// index is Resources put in order, with the look-ups that translation needs.
// Every slice is sorted by namespace and name, so that nothing after it can
// depend on the order of the input.
type index struct {
	classes         []*gwapiv1.GatewayClass
	gateways        []*gwapiv1.Gateway
	routes          []*gwapiv1.HTTPRoute
	referenceGrants []*gwapiv1.ReferenceGrant
	models          []*v1alpha2.Model
	parameters      map[types.NamespacedName]*v1alpha2.GatewayParameters

	services     map[types.NamespacedName]*corev1.Service
	slices       map[types.NamespacedName][]*discoveryv1.EndpointSlice // by Service
	secrets      map[types.NamespacedName]*corev1.Secret
	namespaces   map[string]*corev1.Namespace
	labels       map[string]labels.Set // of namespaces, once asked for
	scaleTargets map[scaleTargetKey]int32
}

type scaleTargetKey struct{ apiVersion, kind, namespace, name string }

func newIndex(res Resources) *index {
	in := &index{
		classes:         sorted(res.GatewayClasses),
		gateways:        sorted(res.Gateways),
		routes:          sorted(res.HTTPRoutes),
		referenceGrants: sorted(res.ReferenceGrants),
		models:          sorted(res.Models),
		parameters:      byName(res.GatewayParameters),
		services:        byName(res.Services),
		slices:          map[types.NamespacedName][]*discoveryv1.EndpointSlice{},
		secrets:         byName(res.Secrets),
		namespaces:      map[string]*corev1.Namespace{},
		labels:          map[string]labels.Set{},
		scaleTargets:    map[scaleTargetKey]int32{},
	}
	for _, s := range sorted(res.EndpointSlices) {
		if service := s.Labels[discoveryv1.LabelServiceName]; service != "" {
			name := types.NamespacedName{Namespace: s.Namespace, Name: service}
			in.slices[name] = append(in.slices[name], s)
		}
	}
	for _, n := range res.Namespaces {
		if n != nil {
			in.namespaces[n.Name] = n
		}
	}
	for _, s := range res.ScaleTargets {
		in.scaleTargets[scaleTargetKey{s.APIVersion, s.Kind, s.Namespace, s.Name}] = s.Replicas
	}
	return in
}

// namespaceLabels are the labels of a namespace, declared or not; read them only.
func (in *index) namespaceLabels(name string) labels.Set {
	set, known := in.labels[name]
	if known {
		return set
	}
	set = labels.Set{corev1.LabelMetadataName: name}
	if n := in.namespaces[name]; n != nil {
		maps.Copy(set, n.Labels)
	}
	in.labels[name] = set
	return set
}

// hasGateway reports whether there is such a Gateway, of whatever class.
func (in *index) hasGateway(name types.NamespacedName) bool {
	_, found := slices.BinarySearchFunc(in.gateways, name, func(g *gwapiv1.Gateway, n types.NamespacedName) int { return compareNames(nameOf(g), n) })
	return found
}

// nameOf is an object's namespace and name.
func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// object is a pointer to a struct with metadata.
type object[T any] interface {
	*T
	metav1.Object
}

// sorted is a copy of objects by namespace and name, nils and repeated names
// left out.
func sorted[T any, P object[T]](objects []P) []P {
	out := slices.DeleteFunc(slices.Clone(objects), func(p P) bool { return p == nil })
	slices.SortStableFunc(out, func(a, b P) int { return compareNames(nameOf(a), nameOf(b)) })
	return slices.CompactFunc(out, func(a, b P) bool { return nameOf(a) == nameOf(b) })
}

// byName indexes objects by namespace and name, nils left out.
func byName[T any, P object[T]](objects []P) map[types.NamespacedName]P {
	m := make(map[types.NamespacedName]P, len(objects))
	for _, p := range objects {
		if p != nil {
			m[nameOf(p)] = p
		}
	}
	return m
}
