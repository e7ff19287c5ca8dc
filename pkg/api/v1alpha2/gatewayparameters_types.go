package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GatewayParameters say how the gateway pods of a Gateway, or of all Gateways
// of a class, run. A GatewayClass names them in spec.parametersRef, a Gateway in
// spec.infrastructure.parametersRef. Where both do, the Gateway's win field by
// field: objects and maps are merged, a list or a value takes the other's place.
//
// No field has a default in the schema, since a default would hide what the
// class says; what neither sets is up to the controller and stands at each
// field. What is wrong with parameters is said by the condition Accepted, reason
// InvalidParameters, of the object that names them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=gatewayparameters,singular=gatewayparameters,shortName=gwp,categories=flexinfer
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Min",type=integer,JSONPath=`.spec.autoscaling.minReplicas`
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.spec.autoscaling.maxReplicas`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.service.type`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GatewayParameters struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the parameters say.
	//
	// +optional
	Spec GatewayParametersSpec `json:"spec,omitempty,omitzero"`
}

// GatewayParametersList is a list of GatewayParameters.
//
// +kubebuilder:object:root=true
type GatewayParametersList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GatewayParameters `json:"items"`
}

// GatewayParametersSpec is what GatewayParameters say. Every field is optional.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.replicas) && has(self.autoscaling))",message="replicas and autoscaling exclude each other: remove replicas to let the autoscaler choose, or remove autoscaling"
type GatewayParametersSpec struct {
	// Replicas is the number of gateway pods. Without it and without
	// autoscaling: 2. Setting it in a Gateway's parameters switches the class's
	// autoscaling off.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`

	// Autoscaling lets a HorizontalPodAutoscaler choose the number of gateway
	// pods. Setting it in a Gateway's parameters switches the class's replicas
	// off.
	//
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`

	// Image is the gateway image; it counts only in the parameters of a
	// GatewayClass, because the image of a Gateway gets the private keys of its
	// listeners. Empty: the controller's own setting.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[^\s]+$`
	Image *string `json:"image,omitempty"`

	// ImagePullPolicy says when the image is pulled. Empty: IfNotPresent.
	//
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy *corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// Resources are the requests and limits of the gateway container. What is
	// not set: requests of 250m cpu and 256Mi memory, a limit of 1Gi memory, no
	// limit of cpu.
	//
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// Service is how clients reach the gateway pods.
	//
	// +optional
	Service *ServiceParameters `json:"service,omitempty"`

	// Pod is where gateway pods run and what they carry.
	//
	// +optional
	Pod *PodParameters `json:"pod,omitempty"`

	// Proxy is how gateway pods route and serve.
	//
	// +optional
	Proxy *ProxyParameters `json:"proxy,omitempty"`
}

// Autoscaling bounds and steers the number of gateway pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",message="minReplicas is greater than maxReplicas: lower minReplicas or raise maxReplicas"
type Autoscaling struct {
	// MinReplicas is the least number of pods. Empty: 2, or maxReplicas if that
	// is less.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// MaxReplicas is the greatest number of pods. Empty: 10, or minReplicas if
	// that is greater.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// TargetCPUUtilizationPercentage is the mean use of the requested cpu that
	// the autoscaler aims at. Empty: 70.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUUtilizationPercentage *int32 `json:"targetCPUUtilizationPercentage,omitempty"`
}

// Resources are the requests and limits of a container.
type Resources struct {
	// Requests are what the scheduler sets aside.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// Limits are what the container may use. The gateway's own limits follow
	// the memory limit: see proxy.limits.bufferedBytes.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// ServiceParameters are how clients reach the gateway pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.externalTrafficPolicy) || !has(self.type) || self.type != 'ClusterIP'",message="externalTrafficPolicy does not go with type ClusterIP: remove it, or use type LoadBalancer or NodePort"
type ServiceParameters struct {
	// Type is the Service's type. Empty: LoadBalancer.
	//
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type *corev1.ServiceType `json:"type,omitempty"`

	// Annotations are put on the Service only, for the provider of load
	// balancers.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('gateway.networking.k8s.io/') && !k.startsWith('flexinfer.ai/'))",message="annotations of gateway.networking.k8s.io/ and flexinfer.ai/ are set by the controller: remove them"
	Annotations map[string]MetadataValue `json:"annotations,omitempty"`

	// ExternalTrafficPolicy says whether outside traffic may cross nodes
	// (Cluster) or keeps its source address (Local). Empty: Cluster.
	//
	// +optional
	// +kubebuilder:validation:Enum=Cluster;Local
	ExternalTrafficPolicy *corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`
}

// MetadataValue is the value of an annotation.
//
// +kubebuilder:validation:MaxLength=4096
type MetadataValue string

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type LabelValue string

// PodParameters are where gateway pods run and what they carry.
type PodParameters struct {
	// Labels are further labels of the pods.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('gateway.networking.k8s.io/') && !k.startsWith('app.kubernetes.io/') && !k.startsWith('flexinfer.ai/'))",message="labels of gateway.networking.k8s.io/, app.kubernetes.io/ and flexinfer.ai/ are set by the controller: remove them"
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// Annotations are further annotations of the pods.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('gateway.networking.k8s.io/') && !k.startsWith('flexinfer.ai/'))",message="annotations of gateway.networking.k8s.io/ and flexinfer.ai/ are set by the controller: remove them"
	Annotations map[string]MetadataValue `json:"annotations,omitempty"`

	// NodeSelector are labels that a node must have.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`

	// Tolerations are taints of nodes that the pods put up with.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// TopologySpreadConstraints say how the pods are spread. A constraint
	// without labelSelector is about the pods of the Gateway. Empty: over nodes
	// and over zones, where that is possible.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// PriorityClassName is the PriorityClass of the pods.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName *string `json:"priorityClassName,omitempty"`
}
