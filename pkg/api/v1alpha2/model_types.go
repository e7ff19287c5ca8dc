package v1alpha2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Model is one served model: a backend that HTTPRoutes may name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=mdl,categories=flexinfer
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.status.strategy`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Backend",type=string,JSONPath=`.spec.backend`,priority=1
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.source`,priority=1
// +kubebuilder:printcolumn:name="Last active",type=date,JSONPath=`.status.lastActiveTime`,priority=1
type Model struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what is served and how requests reach it.
	//
	// +required
	Spec ModelSpec `json:"spec"`

	// Status is what the controller and the operator of the model observed.
	//
	// +optional
	Status ModelStatus `json:"status,omitempty,omitzero"`
}

// ModelList is a list of Models.
//
// +kubebuilder:object:root=true
type ModelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Model `json:"items"`
}

// ModelSpec says what is served and how requests reach it.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.servedModelName) && has(self.requestDecoding) && self.requestDecoding == 'Passthrough')",message="servedModelName rewrites the request body and needs it decoded: remove servedModelName or set requestDecoding to Decode"
type ModelSpec struct {
	// Backend is the inference engine: ollama, vllm, sglang, llamacpp, mlc-llm,
	// tgi, diffusers or another name.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Backend string `json:"backend"`

	// Source is where the weights come from, for example ollama://llama3:8b,
	// HF://Qwen/Qwen3-8B, pvc://models/qwen, file:///models/qwen or
	// oci://registry.example.com/models/qwen:1.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+')",message="source must be a URL with a scheme, such as ollama://llama3:8b or HF://Qwen/Qwen3-8B"
	Source string `json:"source"`

	// ServiceName is the Service in the Model's namespace whose EndpointSlices
	// are the Model's replicas. Empty: the Service named like the Model.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ServiceName string `json:"serviceName,omitempty"`

	// Port is the port of that Service. Empty: the one named http, else the
	// only one, else the usual port of the backend.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// ServiceLabels are shared names that the Model claims: all Models of the
	// namespace that claim a label serve the backendRefs of that name together.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	ServiceLabels []ServiceLabel `json:"serviceLabels,omitempty"`

	// ServedModelName is the name that the engine expects in a request body's
	// field model; another name there is replaced by it. Empty: the body stays
	// as it is.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ServedModelName string `json:"servedModelName,omitempty"`

	// Aliases are other names that clients may use in a request body's field
	// model.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Aliases []ModelName `json:"aliases,omitempty"`

	// RequestDecoding says what a compressed request body becomes: Decode hands
	// the engine the decoded body, Passthrough the body as it came.
	//
	// +optional
	// +kubebuilder:default=Decode
	RequestDecoding RequestDecoding `json:"requestDecoding,omitempty"`

	// Serverless lets the Model scale to zero and wake on demand.
	//
	// +optional
	Serverless *Serverless `json:"serverless,omitempty"`

	// ScaleTargetRef is the workload that is scaled. Empty: the Deployment
	// named like the Model, if there is one.
	//
	// +optional
	ScaleTargetRef *ScaleTargetReference `json:"scaleTargetRef,omitempty"`
}

// ServiceLabel is a name that several Models may share.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
type ServiceLabel string

// ModelName is a name of a model as clients write it.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
type ModelName string

// RequestDecoding says what a compressed request body becomes.
//
// +kubebuilder:validation:Enum=Decode;Passthrough
type RequestDecoding string

// The ways to treat a compressed request body.
const (
	RequestDecodingDecode      RequestDecoding = "Decode"
	RequestDecodingPassthrough RequestDecoding = "Passthrough"
)

// Serverless is the scale-from-zero policy of a Model. Durations are strings
// like 90s or 1h30m: up to four numbers of at most five digits with a unit of
// h, m, s or ms.
type Serverless struct {
	// Enabled switches scaling from zero on.
	//
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// MinReplicas is how many replicas an idle Model keeps; 0 lets it go away
	// entirely. A Model that wakes gets at least one.
	//
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MinReplicas int32 `json:"minReplicas,omitempty"`

	// ColdStartTimeout bounds how long a request waits for the first replica.
	// Empty: the gateway's own setting.
	//
	// +optional
	ColdStartTimeout *Duration `json:"coldStartTimeout,omitempty"`

	// IdleTimeout is how long after the last request the Model is scaled down,
	// at least 5s. 0s: never. Empty: the controller's own setting.
	//
	// +optional
	IdleTimeout *Duration `json:"idleTimeout,omitempty"`

	// WakeMethods are the HTTP methods whose requests wake the Model. Empty:
	// POST.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=9
	WakeMethods []WakeMethod `json:"wakeMethods,omitempty"`
}

// Duration is a length of time as the Gateway API writes it.
//
// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
type Duration string

// WakeMethod is an HTTP method.
//
// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;PATCH;DELETE;OPTIONS;CONNECT;TRACE
type WakeMethod string

// ScaleTargetReference names a workload in the Model's namespace that has a
// scale subresource.
type ScaleTargetReference struct {
	// APIVersion is the workload's group and version.
	//
	// +optional
	// +kubebuilder:default="apps/v1"
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion,omitempty"`

	// Kind is the workload's kind.
	//
	// +optional
	// +kubebuilder:default=Deployment
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// Name is the workload's name.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Phase is where a Model stands in its life.
//
// +kubebuilder:validation:Enum=Idle;Pending;Loading;Ready;Preempted;Failed
type Phase string

// The phases. The controller derives Idle, Loading and Ready where nobody else
// owns the field.
const (
	PhaseIdle      Phase = "Idle"
	PhasePending   Phase = "Pending"
	PhaseLoading   Phase = "Loading"
	PhaseReady     Phase = "Ready"
	PhasePreempted Phase = "Preempted"
	PhaseFailed    Phase = "Failed"
)

// ModelStatus is what was observed of a Model.
type ModelStatus struct {
	// Phase is where the Model stands in its life. Another operator may own it.
	//
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Endpoints is the number of ready replicas.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Endpoints int32 `json:"endpoints"`

	// TotalEndpoints is the number of replicas there are or should be: that of
	// the scale target where it is known, else those that the Service knows.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	TotalEndpoints int32 `json:"totalEndpoints"`

	// Ready is endpoints and totalEndpoints for people, such as 2/3.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Ready string `json:"ready,omitempty"`

	// Strategy is the routing strategy in force, an annotation's value, or
	// default where no valid one asks for another than the Service's own
	// balancing.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Strategy string `json:"strategy,omitempty"`

	// LastActiveTime is when a request last kept the Model awake.
	//
	// +optional
	LastActiveTime *metav1.Time `json:"lastActiveTime,omitempty"`

	// Conditions say what is right and wrong with the Model.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
