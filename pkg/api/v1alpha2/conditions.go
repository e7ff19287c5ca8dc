package v1alpha2

// Condition types of a Model.
const (
	// ConditionRoutingValid is False where an annotation or a service label
	// that steers routing has a value that cannot be used.
	ConditionRoutingValid = "RoutingValid"
	// ConditionResolvedRefs is False where the Model's Service, or the port on
	// it, cannot be used: requests to the Model get an error.
	ConditionResolvedRefs = "ResolvedRefs"
	// ConditionNamesValid is False where a name that clients may use for the
	// Model belongs to another Model of the namespace.
	ConditionNamesValid = "NamesValid"
	// ConditionScaleTargetReady is False where the workload of a serverless
	// Model cannot be scaled: the Model neither wakes nor sleeps.
	ConditionScaleTargetReady = "ScaleTargetReady"
)

// Condition reasons of a Model.
const (
	ReasonValid           = "Valid"           // RoutingValid and NamesValid are True
	ReasonInvalidValue    = "InvalidValue"    // RoutingValid is False
	ReasonAliasConflict   = "AliasConflict"   // NamesValid is False
	ReasonResolvedRefs    = "ResolvedRefs"    // ResolvedRefs is True
	ReasonBackendNotFound = "BackendNotFound" // ResolvedRefs is False: no such Service, or no such port on it
	ReasonUnsupported     = "Unsupported"     // ResolvedRefs is False: a Service that cannot carry requests

	ReasonScalable       = "Scalable"       // ScaleTargetReady is True
	ReasonTargetNotFound = "TargetNotFound" // ScaleTargetReady is False: no such workload, or no such kind of workloads
	ReasonNotScalable    = "NotScalable"    // ScaleTargetReady is False: a kind without a scale subresource
	ReasonNotPermitted   = "NotPermitted"   // ScaleTargetReady is False: the controller may not scale it
	ReasonScaleFailed    = "ScaleFailed"    // ScaleTargetReady is False: the API server refuses or fails
)
