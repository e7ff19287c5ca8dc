package v1alpha2

// AnnotationPrefix begins the annotations below.
const AnnotationPrefix = "flexinfer.ai/"

// Annotations that are read on a Model and on its Service (the Model's wins),
// and on a Service that a route names directly.
const (
	// AnnotationRouting selects how requests find a replica; its values are the
	// Routing constants. Absent: the Service's own balancing.
	AnnotationRouting = AnnotationPrefix + "routing"
	// AnnotationRoutePriority is the tier of a Model in its label groups, an
	// integer that may be negative; higher wins, absent is 0.
	AnnotationRoutePriority = AnnotationPrefix + "route-priority"
	// AnnotationServiceLabels is a comma list of service labels that the Model
	// claims, in addition to spec.serviceLabels.
	AnnotationServiceLabels = AnnotationPrefix + "service-labels"
)

// Values of AnnotationRouting.
const (
	RoutingSessionAffinity = "session-affinity"
	RoutingPrefix          = "prefix"
	RoutingLeastLoaded     = "least-loaded"
	// RoutingDefault is what a Model's status says where no valid annotation
	// asks for a strategy; it is no value of the annotation.
	RoutingDefault = "default"
)
