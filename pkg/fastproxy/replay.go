package fastproxy

import (
	"time"

	"flexinfer.ai/gateway/pkg/routing"
)

// replay sends the request once more after a kept connection that was closed in
// the very moment of the request: on a new connection to the same endpoint, so
// that a request which kills engines stays with the one it has reached. Where
// that endpoint refuses the new connection and had received the whole request
// on the old one, it is taken for killed: errNoResponse, and nobody else gets
// the request. Where it had not, other endpoints follow as after every refused
// connection. Any error but errStale passes as it is.
func (x *exchange) replay(err error) error {
	if err != errStale || x.tries.replays > 0 || x.slot.gone.Load() || x.endsWithin(0) {
		return err
	}
	x.tries.replays++
	x.server.metrics.retried(x.decision.Backend.State, retryStale)
	received := x.leg.conn.requestReceived()
	x.keepBody()
	x.leg.close(false)
	x.resp.header.Reset()
	err = x.try()
	if received && connectFailed(err) {
		x.lease.Report(unixNow(), routing.ResultConnectFailed)
		return errNoResponse
	}
	return err
}

// endsWithin says whether the rule's request time-out passes within d.
func (x *exchange) endsWithin(d time.Duration) bool {
	end := x.requestDeadline()
	return end != 0 && unixNow()+int64(d) >= end
}

// keepBody makes what a try had read of a streamed body, if that was all of it,
// the body of the next.
func (x *exchange) keepBody() {
	if body, ok := x.leg.keptBody(); ok && !x.whole.read {
		x.whole.raw, x.whole.read = body, true
	}
}
