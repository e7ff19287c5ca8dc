package provision

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Desired returns the objects that a Gateway needs, in the order in which they
// are to be applied: what pods refer to before the pods. They hold exactly the
// fields that are ours, for server-side apply. It reads its arguments only, and
// the result shares no memory with them.
func Desired(g Gateway, s Settings) []client.Object {
	objects := []client.Object{
		serviceAccount(g),
		trustConfigMap(g, s),
		service(g),
		disruptionBudget(g),
		deployment(g, s),
	}
	if a := g.Parameters.Autoscaling; a != nil {
		objects = append(objects, autoscaler(g, a))
	}
	for _, o := range objects {
		o.GetLabels()[LabelController] = controllerLabel(s.ControllerName)
	}
	return objects
}

// objectMeta is the metadata of every object of a Gateway.
func objectMeta(g Gateway) metav1.ObjectMeta {
	labels, annotations := infrastructure(g)
	maps.Copy(labels, identity(g))
	return metav1.ObjectMeta{
		Name:        g.name(),
		Namespace:   g.Object.Namespace,
		Labels:      labels,
		Annotations: annotations,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: gwapiv1.GroupVersion.String(), Kind: "Gateway",
			Name: g.Object.Name, UID: g.Object.UID, Controller: new(true),
		}},
	}
}

// identity are the labels by which objects are found. The Gateway API's annotate
// neither version nor part, since both would change pods that need no change.
func identity(g Gateway) map[string]string {
	labels := selector(g.key(), g.class())
	labels[LabelManagedBy] = ManagedBy
	labels[LabelAppName] = "flexinfer-gateway"
	labels[LabelComponent] = "gateway"
	return labels
}

// infrastructure are the labels and annotations of the Gateway's
// spec.infrastructure, which every object carries. What belongs to the Gateway
// API stays its own.
func infrastructure(g Gateway) (labels, annotations map[string]string) {
	labels, annotations = map[string]string{}, map[string]string{}
	infra := g.Object.Spec.Infrastructure
	if infra == nil {
		return labels, annotations
	}
	for key, value := range infra.Labels {
		if !strings.HasPrefix(string(key), "gateway.networking.k8s.io/") {
			labels[string(key)] = string(value)
		}
	}
	for key, value := range infra.Annotations {
		annotations[string(key)] = string(value)
	}
	return labels, annotations
}

func serviceAccount(g Gateway) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   objectMeta(g),
		AutomountServiceAccountToken: new(false),
	}
}

// trustConfigMap is a ConfigMap and not a part of the Deployment, so that a new
// CA reaches running pods.
func trustConfigMap(g Gateway, s Settings) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: objectMeta(g),
		Data:       map[string]string{caFile: string(s.CA)},
	}
}

// disruptionBudget lets one pod go at a time. It never stops the drain of a
// node, not even where there is a single pod.
func disruptionBudget(g Gateway) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: objectMeta(g),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             new(intstr.FromInt32(1)),
			Selector:                   &metav1.LabelSelector{MatchLabels: selector(g.key(), g.class())},
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
		},
	}
}

// toApply is an object as server-side apply wants it: no status, no empty
// creation time, nothing that is not set.
func toApply(o client.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	prune(content)
	return content, nil
}

// prune removes nulls and empty objects, which the typed structs leave behind
// for structs without omitempty. An empty object that means something, such as
// the medium-less emptyDir, does not occur in what is desired.
func prune(v map[string]any) {
	for key, member := range v {
		switch member := member.(type) {
		case nil:
			delete(v, key)
		case map[string]any:
			prune(member)
			if len(member) == 0 {
				delete(v, key)
			}
		case []any:
			for _, entry := range member {
				if entry, ok := entry.(map[string]any); ok {
					prune(entry)
				}
			}
		}
	}
}
