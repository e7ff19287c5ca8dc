package routing

// Outcome says where a Decision sends its request.
type Outcome uint8

// The outcomes of a Decision.
const (
	// OutcomeNone: no endpoint and no Service to fall back to.
	OutcomeNone Outcome = iota
	// OutcomePod: Decision.Target is one replica.
	OutcomePod
	// OutcomeServiceFallback: Decision.Target is the Service itself.
	OutcomeServiceFallback
	// OutcomeCold: a serverless backend without an endpoint; the request may
	// wait for one and must be decided again. The lease holds nothing.
	OutcomeCold
)

// String is the metric label `outcome` of the routing decisions.
func (o Outcome) String() string {
	switch o {
	case OutcomePod:
		return "pod"
	case OutcomeServiceFallback:
		return "service-fallback"
	case OutcomeCold:
		return "cold"
	default:
		return "none"
	}
}

// GroupOutcome says how a label group came to its member.
type GroupOutcome uint8

// The outcomes of a label group's pick.
const (
	// GroupNone: the backend is no group.
	GroupNone GroupOutcome = iota
	// GroupPriorityPick: at least two members could take the request and the
	// highest tier left exactly one.
	GroupPriorityPick
	GroupDefaultRR
	GroupLeastLoaded
	GroupHashedPrefix
	GroupHashedSession
	// GroupFallbackNoKey: a keyed mode, a request without a key: round-robin.
	GroupFallbackNoKey
	// GroupFallbackSingle: only one member could take the request.
	GroupFallbackSingle
	// GroupFallbackNoReady: none is Ready; the member is the cold-start target.
	GroupFallbackNoReady

	// NumGroupOutcomes sizes tables of metric handles.
	NumGroupOutcomes = iota
)

var groupOutcomeNames = [NumGroupOutcomes]string{
	GroupNone:            "",
	GroupPriorityPick:    "priority_pick",
	GroupDefaultRR:       "default_rr",
	GroupLeastLoaded:     "least_loaded",
	GroupHashedPrefix:    "hashed_prefix",
	GroupHashedSession:   "hashed_session",
	GroupFallbackNoKey:   "fallback_no_key",
	GroupFallbackSingle:  "fallback_single",
	GroupFallbackNoReady: "fallback_no_ready",
}

// String is the metric label `outcome` of the label-group decisions.
func (o GroupOutcome) String() string {
	if int(o) < len(groupOutcomeNames) {
		return groupOutcomeNames[o]
	}
	return ""
}

// Result is how an exchange with a target went, as far as passing over depends
// on it.
type Result uint8

// The results. Everything that is neither success nor one of the failures (the
// client left, 4xx, 429) is neutral.
const (
	ResultNeutral Result = iota
	// ResultOK: response headers came, and they carry none of the statuses of
	// ResultServerError and are not 429.
	ResultOK
	// ResultConnectFailed: the connect was refused, timed out or unreachable.
	ResultConnectFailed
	// ResultNoResponse: a fresh connection was closed before the first byte.
	ResultNoResponse
	// ResultFirstByteTimeout: no response byte within the first-byte time-out.
	ResultFirstByteTimeout
	// ResultServerError: status 500, 502, 503 or 504.
	ResultServerError
)

// ResultOfStatus is the Result that an answer's status code stands for.
func ResultOfStatus(code int) Result {
	switch {
	case code == 500 || code == 502 || code == 503 || code == 504:
		return ResultServerError
	case code < 400:
		return ResultOK
	default:
		return ResultNeutral
	}
}
