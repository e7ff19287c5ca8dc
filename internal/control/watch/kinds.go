package watch

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/internal/control/provision"
	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// kind is one kind of objects that is watched.
type kind struct {
	gvk schema.GroupVersionKind
	new func() client.Object
	// install says how an API server gets to know the kind; empty: it is built in.
	install string
}

const (
	installGatewayAPI = "install the Gateway API's CRDs, version 1.5 or newer: kubectl apply --server-side -f " +
		"https://github.com/kubernetes-sigs/gateway-api/releases/download/v1.7.0/standard-install.yaml"
	installOwn = "install the CRDs of this controller: kubectl apply -k manifests/crd"
)

// kinds are what must be known and synced before anything is translated.
func kinds() []kind {
	gateway := func(name string, object func() client.Object) kind {
		return kind{schema.GroupVersion(gwapiv1.GroupVersion).WithKind(name), object, installGatewayAPI}
	}
	own := func(name string, object func() client.Object) kind {
		return kind{v1alpha2.GroupVersion.WithKind(name), object, installOwn}
	}
	core := func(gv schema.GroupVersion, name string, object func() client.Object) kind {
		return kind{gv.WithKind(name), object, ""}
	}
	return []kind{
		gateway("GatewayClass", func() client.Object { return &gwapiv1.GatewayClass{} }),
		gateway("Gateway", func() client.Object { return &gwapiv1.Gateway{} }),
		gateway("HTTPRoute", func() client.Object { return &gwapiv1.HTTPRoute{} }),
		gateway("ReferenceGrant", func() client.Object { return &gwapiv1.ReferenceGrant{} }),
		own(v1alpha2.KindModel, func() client.Object { return &v1alpha2.Model{} }),
		own(v1alpha2.KindGatewayParameters, func() client.Object { return &v1alpha2.GatewayParameters{} }),
		core(corev1.SchemeGroupVersion, "Service", func() client.Object { return &corev1.Service{} }),
		core(corev1.SchemeGroupVersion, "Secret", func() client.Object { return &corev1.Secret{} }),
		core(corev1.SchemeGroupVersion, "Namespace", namespaceMetadata),
		core(corev1.SchemeGroupVersion, "Pod", func() client.Object { return &corev1.Pod{} }),
		core(discoveryv1.SchemeGroupVersion, "EndpointSlice", func() client.Object { return &discoveryv1.EndpointSlice{} }),
		core(appsv1.SchemeGroupVersion, "Deployment", func() client.Object { return &appsv1.Deployment{} }),
		core(appsv1.SchemeGroupVersion, "StatefulSet", func() client.Object { return &appsv1.StatefulSet{} }),
	}
}

func namespaceMetadata() client.Object {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return m
}

// Scheme knows every type that the controller reads or writes.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, gwapiv1.Install, v1alpha2.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// CacheOptions makes a cache that holds only what is needed of each object.
// Reads from it through a client see stripped objects too, and only Secrets of
// type kubernetes.io/tls and gateway pods: read others from the API server itself.
func CacheOptions() cache.Options {
	return cache.Options{
		DefaultTransform: strip,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Field: fields.OneTermEqualSelector("type", string(corev1.SecretTypeTLS))},
			&corev1.Pod{}:    {Label: labels.SelectorFromSet(labels.Set{provision.LabelManagedBy: provision.ManagedBy})},
		},
	}
}
