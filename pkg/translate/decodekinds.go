package translate

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// decodableKind is a kind that files may hold.
type decodableKind struct {
	gvk schema.GroupVersionKind
	// olderVersions are versions with the same fields.
	olderVersions []string
	clusterScoped bool
	// checkName is the syntax of metadata.name.
	checkName func(string) []string

	newObject func() metav1.Object
	// complete fills in the API's defaults and checks the object.
	complete func(metav1.Object, *validator)
	add      func(*Resources, metav1.Object)
}

// kindOf makes the decodableKind of objects of type *T.
func kindOf[T any, P object[T]](group, version, kind string, complete func(P, *validator), add func(*Resources, P)) decodableKind {
	return decodableKind{
		gvk:       schema.GroupVersionKind{Group: group, Version: version, Kind: kind},
		checkName: validation.IsDNS1123Subdomain,
		newObject: func() metav1.Object { return P(new(T)) },
		complete:  func(o metav1.Object, v *validator) { complete(o.(P), v) },
		add:       func(r *Resources, o metav1.Object) { add(r, o.(P)) },
	}
}

func (k decodableKind) alsoVersion(v string) decodableKind {
	k.olderVersions = append(k.olderVersions, v)
	return k
}

func (k decodableKind) inCluster() decodableKind {
	k.clusterScoped = true
	return k
}

func (k decodableKind) named(check func(string) []string) decodableKind {
	k.checkName = check
	return k
}

// decodableKinds are all kinds that files may hold, in the order in which
// messages list them.
var decodableKinds = []decodableKind{
	kindOf(gwapiv1.GroupName, "v1", "GatewayClass", completeGatewayClass,
		func(r *Resources, o *gwapiv1.GatewayClass) { r.GatewayClasses = append(r.GatewayClasses, o) }).inCluster().alsoVersion("v1beta1"),
	kindOf(gwapiv1.GroupName, "v1", "Gateway", completeGateway,
		func(r *Resources, o *gwapiv1.Gateway) { r.Gateways = append(r.Gateways, o) }).alsoVersion("v1beta1"),
	kindOf(gwapiv1.GroupName, "v1", "HTTPRoute", completeHTTPRoute,
		func(r *Resources, o *gwapiv1.HTTPRoute) { r.HTTPRoutes = append(r.HTTPRoutes, o) }).alsoVersion("v1beta1"),
	kindOf(gwapiv1.GroupName, "v1", "ReferenceGrant", completeReferenceGrant,
		func(r *Resources, o *gwapiv1.ReferenceGrant) { r.ReferenceGrants = append(r.ReferenceGrants, o) }).alsoVersion("v1beta1"),
	kindOf(v1alpha2.GroupName, "v1alpha2", v1alpha2.KindModel, completeModel,
		func(r *Resources, o *v1alpha2.Model) { r.Models = append(r.Models, o) }),
	kindOf(v1alpha2.GroupName, "v1alpha2", v1alpha2.KindGatewayParameters, completeGatewayParameters,
		func(r *Resources, o *v1alpha2.GatewayParameters) {
			r.GatewayParameters = append(r.GatewayParameters, o)
		}),
	kindOf("", "v1", "Service", completeService,
		func(r *Resources, o *corev1.Service) { r.Services = append(r.Services, o) }).named(validation.IsDNS1123Label),
	kindOf("discovery.k8s.io", "v1", "EndpointSlice", completeEndpointSlice,
		func(r *Resources, o *discoveryv1.EndpointSlice) { r.EndpointSlices = append(r.EndpointSlices, o) }),
	kindOf("", "v1", "Secret", completeSecret,
		func(r *Resources, o *corev1.Secret) { r.Secrets = append(r.Secrets, o) }),
	kindOf("", "v1", "ConfigMap", func(*corev1.ConfigMap, *validator) {},
		func(r *Resources, o *corev1.ConfigMap) { r.ConfigMaps = append(r.ConfigMaps, o) }),
	kindOf("", "v1", "Namespace", func(*corev1.Namespace, *validator) {},
		func(r *Resources, o *corev1.Namespace) { r.Namespaces = append(r.Namespaces, o) }).inCluster().named(validation.IsDNS1123Label),
	kindOf("apps", "v1", "Deployment", func(*appsv1.Deployment, *validator) {},
		func(r *Resources, o *appsv1.Deployment) { r.addScaleTarget("Deployment", o, o.Spec.Replicas) }),
	kindOf("apps", "v1", "StatefulSet", func(*appsv1.StatefulSet, *validator) {},
		func(r *Resources, o *appsv1.StatefulSet) { r.addScaleTarget("StatefulSet", o, o.Spec.Replicas) }),
}

// addScaleTarget adds the scale of a workload; nil replicas are 1, the API's
// default.
func (r *Resources) addScaleTarget(kind string, o metav1.Object, replicas *int32) {
	n := int32(1)
	if replicas != nil {
		n = *replicas
	}
	r.ScaleTargets = append(r.ScaleTargets, ScaleTarget{
		APIVersion: "apps/v1", Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), Replicas: n,
	})
}
