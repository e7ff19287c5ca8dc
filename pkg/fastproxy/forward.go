package fastproxy

import (
	"math/rand/v2"
	"slices"
	"time"

	"flexinfer.ai/gateway/pkg/routing"
)

// tries counts what one exchange has spent on tries after its first.
type tries struct {
	connects int // on endpoints that could not be connected to
	replays  int // on stale keep-alive connections
	asked    int // of what the rule's retry allows
}

// maxConnectTries bounds how many further endpoints one exchange tries to
// connect to.
const maxConnectTries = 3

// forward tries endpoints until one has answered or the exchange has failed.
func (x *exchange) forward() {
	x.begun = x.started
	for x.decide() {
		err := x.replay(x.try())
		if !x.tryAgain(err) {
			x.conclude(err)
			return
		}
	}
}

// decide picks the endpoint, after a wait for a first replica where the Model
// is cold; false: the exchange is answered.
func (x *exchange) decide() bool {
	in := &x.input
	in.Headers, in.Facts, in.Options = &x.fields, &x.whole.facts, x.server.routing
	for {
		in.Now, in.Rand, in.Exclude = unixNow(), rand.Uint64(), x.tried
		x.backend.Decide(in, &x.lease, &x.decision)
		x.server.decided(&x.decision, x.begun == x.started && x.tries == tries{})
		switch x.decision.Outcome {
		case routing.OutcomePod, routing.OutcomeServiceFallback:
			return true
		case routing.OutcomeCold:
			if !x.awaitReplica() {
				return false
			}
		default:
			return x.refuse(&failNoEndpoint)
		}
	}
}

// awaitReplica waits in the cold Model's queue, then takes up the snapshot that
// ended the wait. The wait does not count against the time for the answer.
func (x *exchange) awaitReplica() bool {
	b := x.decision.Backend
	switch {
	case b.Phase == routing.PhaseFailed:
		return x.refuse(&failActivation)
	case !b.WakesOn(x.req.method) || x.req.upgrade != nil:
		return x.refuse(&failModelIdle)
	}
	if f := x.server.awaitReplica(x.backend, b, x.slot); f != nil {
		return x.refuse(f)
	}
	x.begun = unixNow()
	x.snapshot = x.server.snapshot()
	if x.backend = x.snapshot.Backend(x.backend.Key); x.backend == nil {
		return x.refuse(&failNoBackend)
	}
	return true
}

// try is one try at the decided endpoint; nil: the head of its answer is in
// x.resp.header.
func (x *exchange) try() error {
	if f := x.bodyFor(x.decision.Backend); f != nil {
		return f
	}
	t := x.times()
	if err := x.leg.open(poolOf(x.decision.Target), x.slot, &t, x.req.upgrade != nil); err != nil {
		return err
	}
	x.start()
	var stream requestBody
	if !x.whole.read {
		stream = x.req.body
	}
	return x.leg.roundTrip(x.req.header, x.whole.out, stream, x.resp.header, x.interim)
}

// start makes the exchange an active one of its endpoint.
func (x *exchange) start() {
	b := x.decision.Backend
	if x.req.upgrade != nil || !b.BringsWork(x.req.method) {
		x.lease.StartPoll()
		return
	}
	wakes := x.server.endsIdleness(b, x.input.Now)
	x.lease.Start()
	if wakes {
		x.server.options.DemandChanged()
	}
}

// times are the bounds of one try.
func (x *exchange) times() legTimes {
	set := &x.server.options.Timeouts
	t := legTimes{Connect: set.Connect, FirstByte: set.FirstByte, Idle: set.Idle}
	if d := x.rule.BackendTimeout; d > 0 {
		t.Deadline = unixNow() + int64(d)
	}
	if end := x.requestDeadline(); end != 0 && (t.Deadline == 0 || end < t.Deadline) {
		t.Deadline = end
	}
	return t
}

// requestDeadline is when the rule's request time-out ends the exchange; 0: never.
func (x *exchange) requestDeadline() int64 {
	if d := x.rule.RequestTimeout; d > 0 {
		return x.begun + int64(d)
	}
	return 0
}

// tryAgain says whether another try follows, and prepares it. All of it happens
// before the first response byte has gone to the client: an endpoint that
// cannot be connected to is replaced by another; whatever else is repeated, the
// rule's retry asked for. Stale keep-alive connections are the matter of replay.
func (x *exchange) tryAgain(err error) bool {
	reason := x.retryReason(err)
	if reason == retryNone || x.slot.gone.Load() {
		return false
	}
	pause := time.Duration(0)
	if reason != retryConnect {
		pause = backoff(x.rule.Retry.Backoff, x.tries.asked)
	}
	switch {
	case x.endsWithin(pause):
		return false
	case reason == retryConnect:
		x.tries.connects++
	case !x.server.retries.allow(unixNow()):
		return false
	default:
		x.tries.asked++
	}
	x.server.metrics.retried(x.decision.Backend.State, reason)
	x.abandon(err)
	if pause > 0 {
		x.slot.sleep(pause) // where the client leaves meanwhile, the next try finds out
	}
	return true
}

// retryReason names why the try that ended with err may be followed by another.
// A retry of no attempts forbids also those that the gateway makes by itself.
func (x *exchange) retryReason(err error) retryReason {
	if r := x.rule.Retry; r != nil && r.Attempts == 0 {
		return retryNone
	}
	if connectFailed(err) {
		x.tried = append(x.tried, x.decision.Target)
		if x.tries.connects < maxConnectTries && (x.untried(x.backend, x.decision.Backend) || x.awaitNews()) {
			return retryConnect
		}
		return x.asked(retryAskedConnect)
	}
	switch err {
	case nil:
		r := x.rule.Retry
		if r == nil || !slices.Contains(r.Codes, x.resp.header.StatusCode()) {
			return retryNone
		}
		return x.asked(retryStatus)
	case errStale, errNoResponse, errBadResponse:
		return x.asked(retryNoResponse)
	case errFirstByteTimeout, errDeadline:
		return x.asked(retryTimeout)
	}
	return retryNone
}

// asked is reason where the rule's retry has a try left and the request can be
// sent again, retryNone otherwise.
func (x *exchange) asked(reason retryReason) retryReason {
	if r := x.rule.Retry; r != nil && x.tries.asked < r.Attempts && (x.whole.read || reason == retryAskedConnect) {
		return reason
	}
	return retryNone
}

// untried says whether an endpoint is left that this exchange has not tried: of
// b, which it was decided for, or of another Ready member of the group wanted.
func (x *exchange) untried(wanted, b *routing.CompiledBackend) bool {
	left := func(t *routing.Target) bool { return !slices.Contains(x.tried, t) }
	if slices.ContainsFunc(b.Ready, left) || b.Serverless == nil && slices.ContainsFunc(b.Draining, left) {
		return true
	}
	for _, m := range wanted.Members {
		if m.MemberReady() && slices.ContainsFunc(m.Ready, left) {
			return true
		}
	}
	return false
}

// abandon ends a try that another one follows.
func (x *exchange) abandon(err error) {
	x.keepBody()
	x.leg.close(false)
	x.lease.Release(unixNow(), resultOf(err, x.resp.header.StatusCode()))
	x.resp.header.Reset()
}

// conclude ends the last try: with the engine's answer, or with the gateway's.
func (x *exchange) conclude(err error) {
	now := unixNow()
	if err == nil {
		x.lease.Report(now, routing.ResultOfStatus(x.resp.header.StatusCode()))
		x.answer(now)
		return
	}
	x.leg.close(false)
	x.lease.Release(now, resultOf(err, 0))
	f := failureOf(err)
	if f == &failConnect && x.decision.Outcome == routing.OutcomeServiceFallback {
		f = &failNoEndpoint // the Service was asked because nothing is ready
	}
	x.fail(f)
}

// resultOf is what a try tells about its endpoint.
func resultOf(err error, status int) routing.Result {
	switch {
	case err == nil:
		return routing.ResultOfStatus(status)
	case err == errPoolFull, err == errShortage:
		return routing.ResultNeutral
	case connectFailed(err):
		return routing.ResultConnectFailed
	}
	switch err {
	case errNoResponse:
		return routing.ResultNoResponse
	case errBadResponse:
		return routing.ResultServerError
	case errFirstByteTimeout, errDeadline:
		return routing.ResultFirstByteTimeout
	}
	return routing.ResultNeutral
}

// failureOf is the gateway's answer to an exchange that ended with err.
func failureOf(err error) *failure {
	if f, ok := err.(*failure); ok {
		return f
	}
	if connectFailed(err) {
		return &failConnect
	}
	switch err {
	case errClientGone:
		return &failClientGone
	case errFirstByteTimeout, errDeadline:
		return &failTimeout
	case errBadBody:
		return &failBadBody
	case errBodyTimeout:
		return &failBodyTimeout
	}
	return &failBadGateway
}
