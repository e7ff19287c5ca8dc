package routing

import "time"

// Config is everything one data plane serves, as plain data: what the
// controller sends and what Compile turns into a Snapshot. It is made of keyed
// resources so that a change can travel as the resources that changed.
//
// Every slice of resources is sorted by Key and holds each Key once; every
// reference is a Key. The zero value serves nothing.
type Config struct {
	// Generation counts translations; it only identifies this Config to people
	// and acknowledgements and takes no part in equality.
	Generation uint64

	Listeners     []Listener
	Routes        []Route
	Backends      []Backend
	EndpointLists []EndpointList
	Certificates  []Certificate
}

// Protocol is a listener's application protocol.
type Protocol string

// The protocols that Compile accepts.
const (
	ProtocolHTTP  Protocol = "HTTP"
	ProtocolHTTPS Protocol = "HTTPS"
)

// Listener is one Gateway listener that may serve: conflicted and refused ones
// never get here.
type Listener struct {
	Key      string // "namespace/gateway/listener"
	Gateway  string // "namespace/gateway"
	Port     uint16
	Protocol Protocol
	// Hostname is lower-case; "*.example.com" matches one or more labels in
	// front; empty matches every host.
	Hostname string
	// Certificates are Keys of Config.Certificates, the default one first.
	// Empty unless Protocol is HTTPS.
	Certificates []string
}

// Certificate is a server certificate. It never prints its private key.
type Certificate struct {
	Key     string // "Secret/namespace/name"
	CertPEM []byte // leaf first
	KeyPEM  []byte
}

// Route is one accepted HTTPRoute on the listeners that accepted it.
type Route struct {
	Key string // "HTTPRoute/namespace/name"; namespace/name is the precedence tie-break
	// Created is the object's creation time in Unix seconds: older wins ties.
	Created int64
	// Listeners are the Keys of the listeners the route is attached to.
	Listeners []Attachment
	Rules     []Rule
}

// Attachment binds a route to one listener.
type Attachment struct {
	Listener string
	// Hostnames are the route's own hostnames that intersect the listener's,
	// lower-case, as written in the route ("*.example.com" allowed). Empty: the
	// route names none and takes every host of the listener.
	Hostnames []string
}

// Rule is one rule of a route. Exactly one of these answers a request, in this
// order: Fault, a redirect filter, a CORS preflight, Backends.
type Rule struct {
	Name    string
	Matches []Match // empty: one match of path prefix "/"
	Filters []Filter
	// Backends by weight. Empty, or all of weight 0: 500, unless a filter
	// redirects.
	Backends []BackendRef
	// RequestTimeout bounds the whole exchange, BackendTimeout each try up to
	// the end of its answer; 0 is no bound.
	RequestTimeout time.Duration
	BackendTimeout time.Duration
	Retry          *Retry
	// Fault, if not 0, is the status that every request on this rule gets: the
	// rule carries a filter that could not be resolved.
	Fault int
}

// PathType says how a path is compared.
type PathType string

// The path comparisons. A prefix is compared by whole segments. Exact paths and
// prefixes take every spelling of theirs: their canonical form is compared.
const (
	PathExact  PathType = "Exact"
	PathPrefix PathType = "PathPrefix"
	PathRegex  PathType = "RegularExpression"
)

// ValueType says how a header or query value is compared.
type ValueType string

// The value comparisons. A regular expression (RE2) must match the whole value.
const (
	ValueExact ValueType = "Exact"
	ValueRegex ValueType = "RegularExpression"
)

// Match is one condition set of a rule: all of it must hold.
type Match struct {
	PathType PathType // empty: PathPrefix
	Path     string   // empty: "/"
	Method   string   // empty: any
	Headers  []ValueMatch
	Query    []ValueMatch
}

// ValueMatch compares one header field (Name without case) or one query
// parameter (Name with case).
type ValueMatch struct {
	Type  ValueType // empty: Exact
	Name  string
	Value string
}

// BackendRef is one weighted target of a rule.
type BackendRef struct {
	// Backend is a Key of Config.Backends; empty where the reference could not
	// be resolved: its share of requests is answered with 500.
	Backend string
	Weight  int32
	Filters []Filter
}

// Retry repeats an exchange that failed before its first response byte.
type Retry struct {
	Attempts int           // further tries after the first
	Codes    []int         // response status codes that are tried again, sorted
	Backoff  time.Duration // wait before each further try, doubled each time; 0: none
}

// Filter is a union: exactly one member is set.
type Filter struct {
	RequestHeaders  *HeaderFilter
	ResponseHeaders *HeaderFilter
	Redirect        *RedirectFilter
	Rewrite         *RewriteFilter
	Mirror          *MirrorFilter
	CORS            *CORSFilter
}

// HeaderFilter edits a header block: Remove, then Set (replaces all values),
// then Add (appends). Names that frame the message or belong to one hop never
// get here.
type HeaderFilter struct {
	Set    []Header
	Add    []Header
	Remove []string
}

// Header is one field.
type Header struct{ Name, Value string }

// PathRewriteType says what a path rewrite replaces.
type PathRewriteType string

// The path rewrites.
const (
	ReplaceFullPath    PathRewriteType = "ReplaceFullPath"
	ReplacePrefixMatch PathRewriteType = "ReplacePrefixMatch"
)

// PathRewrite replaces a request's path; the query is kept.
type PathRewrite struct {
	Type  PathRewriteType
	Value string
}

// RedirectFilter answers with a redirect; empty members keep the request's.
type RedirectFilter struct {
	Scheme   string
	Hostname string
	Path     *PathRewrite
	// Port 0: the scheme's usual port if Scheme is set, else the listener's.
	Port   uint16
	Status int // 301, 302, 303, 307, 308
}

// RewriteFilter changes the request on its way to the backend.
type RewriteFilter struct {
	Hostname string // empty: keep
	Path     *PathRewrite
}

// MirrorFilter sends a copy of the share Numerator/Denominator of requests to
// another backend, whose answer is thrown away.
type MirrorFilter struct {
	Backend     string // Key of Config.Backends
	Numerator   int32
	Denominator int32
}

// CORSFilter is the CORS policy of a rule.
type CORSFilter struct {
	AllowOrigins     []string // exact origins, "*", or one "*" inside the host
	AllowMethods     []string // or "*"
	AllowHeaders     []string // or "*"
	ExposeHeaders    []string
	AllowCredentials bool
	MaxAge           time.Duration
}

// BackendKind is what a Backend stands for.
type BackendKind string

// The backend kinds. A Group is a service label claimed by several Models (or
// by one, by name of the label): its Members are Model backends.
const (
	BackendModel   BackendKind = "Model"
	BackendService BackendKind = "Service"
	BackendGroup   BackendKind = "Group"
)

// Strategy is how requests find a replica of a Backend.
type Strategy string

// The strategies; the default one is the Service's own balancing.
const (
	StrategyDefault     Strategy = "default"
	StrategySession     Strategy = "session-affinity"
	StrategyPrefix      Strategy = "prefix"
	StrategyLeastLoaded Strategy = "least-loaded"
)

// Phase is a Model's phase as far as serving depends on it.
type Phase string

// The phases that change how a Model is served. Any other phase leaves
// readiness to the endpoints.
const (
	// PhaseFailed: requests do not wait for a replica, and label groups go by.
	PhaseFailed Phase = "Failed"
	// PhaseNotReady: label groups go by while another member is Ready, whatever
	// the endpoints say.
	PhaseNotReady Phase = "NotReady"
)

// Backend is a Model, a plain Service port or a label group.
type Backend struct {
	Key  string // "Model/ns/name", "Service/ns/name:port", "Group/ns/label"
	Kind BackendKind
	// Namespace and Name identify the object; Name is the metric label `model`
	// (`label` for a group), "Namespace/Name" the model identity in keys.
	Namespace, Name string
	Strategy        Strategy
	// Priority is the route-priority tier: higher wins among Ready members.
	Priority int
	// Members are the Keys of a Group's Models, sorted by name.
	Members []string

	// Endpoints is the Key of the endpoint list. Empty for a Group.
	Endpoints string
	// Service is the "host:port" dialled on Service fallback (ClusterIP or DNS
	// name); empty: there is none.
	Service string

	// ServedModelName replaces the body's `model`; empty: the body stays as it is.
	ServedModelName string
	// Aliases are other names clients may use in the body's `model`, sorted.
	Aliases []string
	// DecodeRequests: the engine gets a compressed body decoded.
	DecodeRequests bool
	// Phase as reported by whoever owns it, where it matters here.
	Phase Phase
	// Serverless is set where requests may wait for a first replica.
	Serverless *Serverless
}

// Serverless is a Model's scale-from-zero policy on the request path.
type Serverless struct {
	// ColdStartTimeout bounds the wait for a replica; 0: the process's setting.
	ColdStartTimeout time.Duration
	// WakeMethods are the methods that wake the Model, sorted; empty: POST.
	WakeMethods []string
}

// EndpointList is the replicas of one Backend.
type EndpointList struct {
	Key       string // "Model/ns/name" or "Service/ns/name:port"
	Endpoints []Endpoint
}

// Endpoint is one replica. A list is sorted by Address and holds each pod once.
type Endpoint struct {
	Address string // "ip:port" or "[ip6]:port"
	UID     string // the pod's UID, where known: a restarted pod is another one
	State   EndpointState
}

// EndpointState says whether a replica takes requests.
type EndpointState string

// The endpoint states. A Draining endpoint (terminating, still serving) is used
// only when no Ready one is left; a NotReady one never.
const (
	EndpointReady    EndpointState = "Ready"
	EndpointDraining EndpointState = "Draining"
	EndpointNotReady EndpointState = "NotReady"
)
