package fastproxy

import (
	"github.com/valyala/fasthttp"

	"flexinfer.ai/gateway/pkg/routing"
)

// answer turns the head of an engine's answer into the client's, and its body
// into a complete one where all of it has been received, a stream otherwise.
func (x *exchange) answer(now int64) {
	x.answered = now
	h := x.resp.header
	if h.StatusCode() == fasthttp.StatusSwitchingProtocols {
		x.tunnel = true
		x.lease.BringsWork(now) // an upgrade alone is none, what goes through it is
		x.responseFilters()
		return
	}
	stripResponseHopByHop(h)
	x.responseFilters()
	body, complete := x.leg.complete(x.answerBody[:0])
	if complete {
		x.answerBody, x.resp.body = body, body
		x.lease.Release(now, routing.ResultNeutral)
		return
	}
	_, length := x.leg.framing()
	x.resp.stream, x.resp.length = true, length
	// The rest of the request is read beside the answer, which says now whether
	// the connection goes on.
	x.resp.close = x.resp.close || x.leg.uploading()
}

// WriteTo streams the answer's body to w, every read of the engine's flushed
// on. It returns the error that cut it, and belongs to the exchange's goroutine.
func (x *exchange) WriteTo(w flushWriter) (int64, error) {
	n, err := x.leg.WriteTo(w)
	x.sent += n
	x.streamed = err
	return n, err
}

// finish records the exchange and gives back all that it holds. The front calls
// it when the answer has been handed over or broke off, on every way out;
// further calls do nothing.
func (x *exchange) finish() {
	if x.finished {
		return
	}
	x.finished = true
	x.leg.close(x.streamed == nil)
	now := unixNow()
	x.lease.Release(now, routing.ResultNeutral)
	x.whole.release(&x.server.bodies)
	x.leg.forget()
	x.server.record(x, now)
	if cap(x.answerBody) > keptAnswerBytes {
		x.answerBody = nil
	}
	x.backend, x.rule, x.ref, x.listener, x.socket, x.snapshot = nil, nil, nil, nil, nil, nil
	x.decision.Backend, x.decision.Group, x.decision.Target = nil, nil, nil
	clear(x.tried[:cap(x.tried)])
}
