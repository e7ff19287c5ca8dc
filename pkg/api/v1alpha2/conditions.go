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
)

// Condition reasons of a Model.
const (
	ReasonValid           = "Valid"           // RoutingValid and NamesValid are True
	ReasonInvalidValue    = "InvalidValue"    // RoutingValid is False
	ReasonAliasConflict   = "AliasConflict"   // NamesValid is False
	ReasonResolvedRefs    = "ResolvedRefs"    // ResolvedRefs is True
	ReasonBackendNotFound = "BackendNotFound" // ResolvedRefs is False: no such Service, or no such port on it
	ReasonUnsupported     = "Unsupported"     // ResolvedRefs is False: a Service that cannot carry requests
)
