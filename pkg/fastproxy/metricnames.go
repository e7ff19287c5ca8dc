package fastproxy

import "github.com/prometheus/client_golang/prometheus"

const metricPrefix = "flexinfer_proxy_"

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(metricPrefix+name, help, labels, nil)
}

// The series that a scrape makes from counters. Names and labels are contract.
var (
	descRequests = describe("requests_total",
		"Requests by HTTP status sent to the client; 499 where it went away first.", "model", "status")
	descActive = describe("active_connections",
		"Exchanges that run with an engine of the model.", "model")
	descCut = describe("answers_cut_total",
		"Answers that an engine ended early after their head had gone out.", "model")
	descRetries = describe("upstream_retries_total",
		"Tries that followed a failed one, by reason.", "model", "reason")
	descUnrouted = describe("unrouted_requests_total",
		"Answers to requests that reached no backend, by HTTP status.", "status")

	descDecisions = describe("routing_decisions_total",
		"Routing decisions by strategy, source of the key and outcome.", "model", "strategy", "key_source", "outcome")
	descHits = describe("routing_target_hits_total",
		"Routing decisions by the target picked: a pod's IP:port, or service-dns.", "model", "strategy", "target")
	descCardinality = describe("routing_key_cardinality",
		"Distinct routing keys seen, up to the tracker's cap.", "model", "strategy", "key_source")
	descOverflow = describe("routing_key_cardinality_overflow_total",
		"New routing keys that the tracker had no room for.", "model", "strategy", "key_source")
	descMalformed = describe("routing_malformed_keys_total",
		"Explicit cache keys that were passed over as malformed.", "model", "key_source")
	descReservations = describe("least_loaded_reservations_total",
		"Least-loaded picks that were reserved.", "model")
	descExpired = describe("least_loaded_reservations_expired_total",
		"Reservations that expired before a connection consumed them.", "model")

	descGroupDecisions = describe("label_group_route_decisions_total",
		"Picks of a label group's member by mode and outcome.", "label", "strategy", "outcome")
	descGroupHits = describe("label_group_route_target_hits_total",
		"Picks of a label group by the Model picked.", "label", "strategy", "model")

	descQueueDepth = describe("queue_depth",
		"Requests that wait for a cold Model.", "model")
	descQueueRejected = describe("queue_rejected_total",
		"Requests refused because the cold Model's queue was full.", "model")

	descEndpoints = describe("endpoint_count",
		"Replicas that take requests.", "model")
	descEndpointChanges = describe("endpoint_changes_total",
		"Replicas that began and ceased to take requests.", "model", "change_type")
	descPassedOver = describe("endpoint_passed_over",
		"1 while picks go past the replica because it failed.", "model", "target")

	descSnapshotInfo = describe("snapshot_info",
		"1 for the version of the live configuration.", "version")
	descSnapshotGeneration = describe("snapshot_generation",
		"Generation of the live configuration.")
	descSnapshotAge = describe("snapshot_age_seconds",
		"Time since the live configuration was applied.")
	descApplyFailures = describe("snapshot_apply_failures_total",
		"Configurations that could not be used.")

	descAccepted = describe("client_connections_total",
		"Client connections accepted.")
	descOpen = describe("client_connections",
		"Client connections open.")
	descOverLimit = describe("client_connections_refused_total",
		"Client connections closed at once because of the limit.")
	descAcceptErrors = describe("client_accept_errors_total",
		"Failed accepts.")
	descTLSFailed = describe("client_tls_failures_total",
		"TLS handshakes with clients that failed.")
	descPanics = describe("client_panics_total",
		"Panics that ended a client's connection.")
	descRefused = describe("client_messages_refused_total",
		"Messages that the HTTP gate refused, by reason.", "reason")
	descUpstream = describe("upstream_connections",
		"Connections to engines of the live configuration, by state.", "state")
	descBuffered = describe("buffered_body_bytes",
		"Bytes of request bodies held whole.")
	descMirrored = describe("mirrored_requests_total",
		"Copies of requests by what became of them: sent (failed ones included), dropped for want of room or endpoint, failed.", "outcome")
)

var descs = []*prometheus.Desc{
	descRequests, descActive, descCut, descRetries, descUnrouted,
	descDecisions, descHits, descCardinality, descOverflow, descMalformed, descReservations, descExpired,
	descGroupDecisions, descGroupHits, descQueueDepth, descQueueRejected,
	descEndpoints, descEndpointChanges, descPassedOver,
	descSnapshotInfo, descSnapshotGeneration, descSnapshotAge, descApplyFailures,
	descAccepted, descOpen, descOverLimit, descAcceptErrors, descTLSFailed, descPanics, descRefused,
	descUpstream, descBuffered, descMirrored,
}
