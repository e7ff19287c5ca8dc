package v1alpha2

// AnnotationPrefix begins the annotations below.
const AnnotationPrefix = "flexinfer.ai/"

// MistakenPrefix is taken for AnnotationPrefix by people who know the API group; it
// is told, and nothing of it is read.
const MistakenPrefix = GroupName + "/"

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

// AnnotationRouteBytes is how many bytes the spec of an HTTPRoute took as JSON
// that the controller holds without its rules, because it is too large to be
// served. The controller writes it in its own memory only and the API server
// never stores it; what others write there is not read.
const AnnotationRouteBytes = AnnotationPrefix + "route-bytes"

// Values of AnnotationRouting.
const (
	RoutingSessionAffinity = "session-affinity"
	RoutingPrefix          = "prefix"
	RoutingLeastLoaded     = "least-loaded"
	// RoutingDefault is what a Model's status says where no valid annotation
	// asks for a strategy; it is no value of the annotation.
	RoutingDefault = "default"
)
