package v1alpha2

// ProxyParameters are how gateway pods route and serve. Each field is the flag
// of the gateway with the same meaning; empty: the flag's default. Those of
// routing and those directly here have the paths of the Helm values.
type ProxyParameters struct {
	// Routing is how requests find a replica.
	//
	// +optional
	Routing *RoutingParameters `json:"routing,omitempty"`

	// MaxQueueSize is how many requests may wait for one cold Model. Empty: 100.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxQueueSize *int32 `json:"maxQueueSize,omitempty"`

	// QueueTimeout is how long a request may wait in the queue of a cold Model.
	// Empty: 1m.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="queueTimeout must be longer than 0s: write a duration such as 60s"
	QueueTimeout *Duration `json:"queueTimeout,omitempty"`

	// ColdStartTimeout is how long a cold Model may take to get a ready replica,
	// where the Model itself does not say. Empty: 1m.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="coldStartTimeout must be longer than 0s: write a duration such as 60s"
	ColdStartTimeout *Duration `json:"coldStartTimeout,omitempty"`

	// GracefulShutdownTimeout is how long running exchanges may go on when a pod
	// ends, after shutdownDrainDelay. The pod's grace period follows both.
	// Empty: 30s.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('24h')",message="gracefulShutdownTimeout must be longer than 0s and at most 24h: write a duration such as 30s"
	GracefulShutdownTimeout *Duration `json:"gracefulShutdownTimeout,omitempty"`

	// ShutdownDrainDelay is how long new connections are still taken when a pod
	// ends. Empty: 5s.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('1h')",message="shutdownDrainDelay must be at most 1h: write a duration such as 5s"
	ShutdownDrainDelay *Duration `json:"shutdownDrainDelay,omitempty"`

	// Log is what is logged.
	//
	// +optional
	Log *LogParameters `json:"log,omitempty"`

	// Limits bound what clients and engines may take.
	//
	// +optional
	Limits *LimitParameters `json:"limits,omitempty"`

	// Timeouts are those of one exchange, each for itself.
	//
	// +optional
	Timeouts *TimeoutParameters `json:"timeouts,omitempty"`
}

// RoutingParameters are how requests find a replica.
type RoutingParameters struct {
	// ExplicitKeyMaxLength is the longest explicit cache key, in bytes.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	ExplicitKeyMaxLength *int32 `json:"explicitKeyMaxLength,omitempty"`

	// SystemSegmentMaxLength is how many bytes of each system text take part in
	// a prefix key.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	SystemSegmentMaxLength *int32 `json:"systemSegmentMaxLength,omitempty"`

	// DocumentSegmentMaxLength is how many bytes of the document context take
	// part in a prefix key.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	DocumentSegmentMaxLength *int32 `json:"documentSegmentMaxLength,omitempty"`

	// SessionHeaders are further headers that carry a session, in the order they
	// are tried; an empty list: none.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	SessionHeaders *[]HeaderName `json:"sessionHeaders,omitempty"`

	// LabelGroupMode is how a shared service label picks the Model.
	//
	// +optional
	LabelGroupMode *LabelGroupMode `json:"labelGroupMode,omitempty"`

	// LeastLoadedReservationTTL is how long a least-loaded pick counts as load
	// before its exchange starts; 0s keeps no reservations.
	//
	// +optional
	LeastLoadedReservationTTL *Duration `json:"leastLoadedReservationTTL,omitempty"`

	// VirtualNodes is the number of ring points of a replica.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	VirtualNodes *int32 `json:"virtualNodes,omitempty"`

	// KeyCardinalityLimit is how many distinct keys are counted per Model,
	// strategy and key source.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	KeyCardinalityLimit *int32 `json:"keyCardinalityLimit,omitempty"`
}

// HeaderName is the name of an HTTP header.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$`
type HeaderName string

// LabelGroupMode is how a label group picks its member.
//
// +kubebuilder:validation:Enum=round-robin;least-loaded;prefix;session;prefix-or-rr;session-or-rr;prefix-session-or-rr
type LabelGroupMode string

// LogParameters are what a gateway logs.
type LogParameters struct {
	// Level is the least level that is logged; at debug, one line a routing
	// decision. Empty: info.
	//
	// +optional
	// +kubebuilder:validation:Enum=debug;info;warn;error
	Level *string `json:"level,omitempty"`

	// Format is the form of the lines. Empty: json.
	//
	// +optional
	// +kubebuilder:validation:Enum=text;json
	Format *string `json:"format,omitempty"`

	// Access logs one line a request.
	//
	// +optional
	Access *bool `json:"access,omitempty"`
}

// LimitParameters bound what clients and engines may take, for each gateway pod.
type LimitParameters struct {
	// HeaderBytes is the size of a request's header block; more is answered with
	// 431. Empty: 65536.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=16777216
	HeaderBytes *int32 `json:"headerBytes,omitempty"`

	// BodyBytes is the size of a request body that must be read whole; more is
	// answered with 413. Empty: 33554432.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1024
	BodyBytes *int64 `json:"bodyBytes,omitempty"`

	// BufferedBytes is the size of all bodies read whole together; over it
	// requests are answered with 503. Empty: a third of the memory limit.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1024
	BufferedBytes *int64 `json:"bufferedBytes,omitempty"`

	// Connections is the number of client connections; more are closed at once.
	// Empty: 65536.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	Connections *int32 `json:"connections,omitempty"`

	// ConnectionAge is after how long a client connection is ended between
	// requests; 0s: never, as when empty.
	//
	// +optional
	ConnectionAge *Duration `json:"connectionAge,omitempty"`

	// EndpointConnections is the number of connections to one replica. Empty:
	// 4096.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	EndpointConnections *int32 `json:"endpointConnections,omitempty"`

	// Mirrors is the number of mirrored requests in flight. Empty: 64.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	Mirrors *int32 `json:"mirrors,omitempty"`
}

// TimeoutParameters are the time-outs of one exchange, each for itself. Each is
// longer than 0s.
//
// +kubebuilder:validation:XValidation:rule="!has(self.header) || duration(self.header) > duration('0s')",message="header must be longer than 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.body) || duration(self.body) > duration('0s')",message="body must be longer than 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.clientIdle) || duration(self.clientIdle) > duration('0s')",message="clientIdle must be longer than 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.writeStall) || duration(self.writeStall) > duration('0s')",message="writeStall must be longer than 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.handshake) || duration(self.handshake) > duration('0s')",message="handshake must be longer than 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.connect) || duration(self.connect) > duration('0s')",message="connect must be longer than 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.firstByte) || duration(self.firstByte) > duration('0s')",message="firstByte must be longer than 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.idle) || duration(self.idle) > duration('0s')",message="idle must be longer than 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.poolIdle) || duration(self.poolIdle) > duration('0s')",message="poolIdle must be longer than 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.tunnel) || duration(self.tunnel) > duration('0s')",message="tunnel must be longer than 0s"
type TimeoutParameters struct {
	// Header is for a client's header block, from its first byte. Empty: 10s.
	//
	// +optional
	Header *Duration `json:"header,omitempty"`

	// Body is between two reads of a client's body. Empty: 1m.
	//
	// +optional
	Body *Duration `json:"body,omitempty"`

	// ClientIdle is between two requests on a client connection. Empty: 2m.
	//
	// +optional
	ClientIdle *Duration `json:"clientIdle,omitempty"`

	// WriteStall is how long a client may refuse to read its answer. Empty: 1m.
	//
	// +optional
	WriteStall *Duration `json:"writeStall,omitempty"`

	// Handshake is for a client's TLS handshake. Empty: 10s.
	//
	// +optional
	Handshake *Duration `json:"handshake,omitempty"`

	// Connect is for a connect to a replica. Empty: 2s.
	//
	// +optional
	Connect *Duration `json:"connect,omitempty"`

	// FirstByte is from the end of a request to the first byte of its answer.
	// Empty: 10m.
	//
	// +optional
	FirstByte *Duration `json:"firstByte,omitempty"`

	// Idle is between two reads of a replica's answer. Empty: 5m.
	//
	// +optional
	Idle *Duration `json:"idle,omitempty"`

	// PoolIdle is how long an unused connection to a replica is kept; keep it
	// below the engine's own, 5s with uvicorn. Empty: 4s.
	//
	// +optional
	PoolIdle *Duration `json:"poolIdle,omitempty"`

	// Tunnel is how long a WebSocket may be silent. Empty: 1h.
	//
	// +optional
	Tunnel *Duration `json:"tunnel,omitempty"`
}
