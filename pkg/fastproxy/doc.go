// Package fastproxy is the data plane: it turns a routing.Config into open
// sockets, and every request on them into one exchange with one engine.
//
// One exchange, top to bottom, a file per station:
//
//	acceptor.go, tls.go, sniff.go  a connection: limits, TLS by SNI, HTTP/1.1 or HTTP/2
//	h1.go, h2.go                   the two front ends' request loops; they fill a neutral request
//	gate.go, target.go             the strict gate: what may be ambiguous to an engine is refused
//	serve.go                       listener, model, match, local answers, filters
//	body.go                        whole where something needs it, else streamed
//	forward.go, retry.go           endpoint, try, and when another try may follow
//	coldstart.go, queue.go         the wait for a first replica; demand.go: what goes on, for who scales
//	leg.go, pool.go                one try: connection, request out, head in
//	answer.go                      the engine's head becomes the client's; body complete or streamed
//	metrics.go, log.go             the record
//
// Invariants:
//
//   - A request loads the Snapshot once; only a wait for a first replica loads it
//     again. A swap drops no connection and forgets no count: pools, ledgers and
//     metric handles hang on entities of the routing.Registry.
//   - Bytes are sacred: target and body go on as received; a body changes only
//     where its Model asks for another model name or for decoding.
//   - Whoever takes the pointer out of clientSlot.inflight owns the upstream
//     connection. A client that leaves aborts its own exchange and nothing else.
//   - Demand is a level that costs the hot path nothing of its own: Running and
//     LastActive are read off the counters that the lease keeps anyway. Polls are
//     load and no demand. A drain takes configurations to its end, so that who
//     waits is served; who cannot be is told to come again.
//   - Every way out of an exchange passes finish, which gives back the lease, the
//     connection and the memory. A panic ends its connection only.
//   - Slices of a request die with its exchange.
//
// What never happens here: no Kubernetes type, no choice of an endpoint (package
// routing decides), no retry once a byte of the answer has gone out, no key,
// prompt or credential in a log line or a metric.
//
// Answers of the gateway itself stand in one table, errors.go: no listener or
// route 404, misdirected 421, unresolved backend 500, connection or protocol
// failure of an engine 503 or 502, its silence 504, limits 413, 415, 431, 503.
package fastproxy
