package fastproxy

import (
	"bytes"
	"math/rand/v2"
	"net/url"

	"github.com/valyala/fasthttp"

	"flexinfer.ai/gateway/pkg/routing"
)

// core is what the stations of one exchange hand to each other. It is reset
// between requests.
type core struct {
	snapshot *routing.Snapshot
	socket   *routing.Socket
	listener *routing.CompiledListener
	rule     *routing.CompiledRule
	ref      *routing.WeightedBackend
	backend  *routing.CompiledBackend // what ref names: a Model, a Service or a group
	prefix   string                   // the path prefix that matched
	model    []byte                   // value of X-Gateway-Model-Name, nil none
	// asksModel: the body is read for the model it names, so the client is
	// taken for a Model's. unreadable is why that name could not be found out, if
	// the body's coding or its JSON is broken.
	asksModel  bool
	unreadable *failure

	fields fieldView

	lease    routing.Lease
	input    routing.RouteInput
	decision routing.Decision
	tries    tries

	// started is when the request's head was complete, answered when the head
	// of the answer was known; Unix nanoseconds.
	started, answered int64
	// begun is when the time for the answer began: started, or the end of the
	// wait for a first replica.
	begun int64
	// failed is the gateway's own answer, nil where an engine answered.
	failed   *failure
	streamed error // how the answer's stream ended
	sent     int64 // bytes of the answer's body
	finished bool
}

// scratch is what an exchange keeps from one request to the next, because it is
// memory or too large to be cleared whole; begin resets its members in place.
type scratch struct {
	whole wholeBody
	tried []*routing.Target

	target, authority, location, coding []byte
	answerBody                          []byte // up to keptAnswerBytes
}

// fieldView shows a request's fields to the router.
type fieldView struct{ h *fasthttp.RequestHeader }

// Value returns the first line of the field name, nil where it is absent.
func (v *fieldView) Value(name string) []byte { return v.h.Peek(name) }

// keptAnswerBytes bounds the answer buffer that an idle connection keeps.
const keptAnswerBytes = 16 << 10

// serve takes the request from its head to the head of its answer: listener,
// model, match, local answers, filters, body, endpoint, engine. On return
// x.resp is set; the front sends it and calls finish.
func (x *exchange) serve() {
	x.begin()
	switch {
	case !x.chooseListener(),
		!x.readModel(),
		!x.match(),
		x.answerLocally(),
		!x.chooseBackend(),
		!x.planBody():
		return
	}
	x.outgoing()
	x.mirror()
	x.forward()
}

// begin resets the stations' state for the request that x.req holds.
func (x *exchange) begin() {
	x.core = core{}
	x.tried, x.target, x.authority = x.tried[:0], x.target[:0], x.authority[:0]
	x.location, x.answerBody = x.location[:0], x.answerBody[:0]
	// Before anything is added: no Connection of a client takes that away again.
	stripHopByHop(x.req.header)
	x.coding = appendCodings(x.coding[:0], x.req.header)
	x.whole.reset()
	x.started = unixNow()
	x.fields.h = x.req.header
	x.snapshot = x.server.snapshot()
	x.resp.body, x.resp.stream, x.resp.length, x.resp.close = nil, false, 0, false
	x.tunnel = false
}

// chooseListener finds the listener of the request's host on its port.
func (x *exchange) chooseListener() bool {
	x.socket = x.snapshot.Socket(x.port)
	if x.socket == nil {
		return x.refuse(&failNoRoute)
	}
	x.listener = x.socket.Listener(x.req.host)
	if x.req.tls {
		key := ""
		if x.listener != nil {
			key = x.listener.Key
		}
		if key != x.sniListener {
			return x.refuse(&failMisdirected)
		}
	}
	if x.listener == nil {
		return x.refuse(&failNoRoute)
	}
	return true
}

// readModel sets X-Gateway-Model-Name from the body where the listener's rules
// match on it; what the client sent under that name never counts.
func (x *exchange) readModel() bool {
	if !x.listener.NeedsModel {
		return true
	}
	removeRequestField(x.req.header, routing.HeaderModelName)
	var name []byte
	switch {
	case x.req.upgrade != nil:
		name = queryValue(x.req.query, "model")
	case takesPart(x.req.method) && x.req.body.Len() != 0:
		x.asksModel = true
		if f := x.readBody(); f != nil {
			return x.refuse(f)
		}
		x.unreadable = x.parseBody()
		if x.unreadable == nil && x.brokenJSON() {
			x.unreadable = &failNoJSON
		}
		x.asksModel = x.unreadable != nil || x.whole.facts.JSON()
		name, _ = x.whole.facts.Model()
	}
	if name == nil {
		return true
	}
	x.model = x.listener.ResolveModel(name)
	if isFieldValue(x.model) {
		x.req.header.SetBytesV(routing.HeaderModelName, x.model)
	}
	return true
}

// brokenJSON says whether the body that was parsed is meant to be a JSON object,
// by its type or its first byte, and is none.
func (x *exchange) brokenJSON() bool {
	w := &x.whole
	if w.facts.JSON() || len(w.plain) == 0 {
		return false
	}
	const json = "application/json"
	t := x.req.header.ContentType()
	if len(t) >= len(json) && equalFold(t[:len(json)], json) {
		return true
	}
	begin := bytes.TrimLeft(w.plain, " \t\r\n")
	return len(begin) > 0 && begin[0] == '{'
}

// match finds the rule.
func (x *exchange) match() bool {
	rq := routing.Request{
		Method: x.req.method, Host: x.req.host, Path: x.req.matchPath, Query: x.req.query,
		Headers: &x.fields, Model: x.model,
	}
	var m *routing.MatchedRule
	if isPreflight(&x.req) {
		m = x.listener.MatchPreflight(&rq, x.req.header.Peek("Access-Control-Request-Method"))
		if m != nil {
			x.rule = m.Rule
			x.resp.header.SetStatusCode(fasthttp.StatusNoContent)
			corsPreflight(m.Rule.CORS, &x.req, x.resp.header)
			return false
		}
	}
	if m = x.listener.Match(&rq); m == nil {
		switch {
		case x.unreadable != nil:
			return x.refuse(x.unreadable)
		case x.model != nil:
			return x.refuse(&failModelNotFound)
		case x.asksModel:
			return x.refuse(&failNoModel)
		}
		return x.refuse(&failNoRoute)
	}
	x.rule, x.prefix = m.Rule, m.Prefix
	return true
}

// answerLocally answers what a rule answers without a backend.
func (x *exchange) answerLocally() bool {
	if x.rule.Fault != 0 {
		x.fail(&failBadFilter)
		return true
	}
	if f := x.rule.Redirect; f != nil {
		x.location = redirectLocation(x.location, &x.req, f, x.prefix, x.port)
		x.resp.header.SetStatusCode(f.Status)
		x.resp.header.SetBytesV("Location", x.location)
		x.responseFilters()
		return true
	}
	return false
}

// chooseBackend draws the rule's backend by weight.
func (x *exchange) chooseBackend() bool {
	x.ref = x.rule.PickBackend(rand.Uint32())
	if x.ref == nil || x.ref.Backend == nil {
		return x.refuse(&failNoBackend)
	}
	x.backend = x.ref.Backend
	return true
}

// outgoing turns the request's head into what goes upstream: filters of the
// rule, then of the backendRef, then the hop's own fields.
func (x *exchange) outgoing() {
	x.target = append(x.target, x.req.target...)
	x.authority = append(x.authority, x.req.authority...)
	h := x.req.header
	x.requestFilters(x.rule.Filters)
	x.requestFilters(x.ref.Filters)
	stripHopFields(h) // a filter may have set some
	forwardedFields(h, &x.req)
	if x.req.upgrade != nil {
		h.Set("Connection", "Upgrade")
		h.SetBytesV("Upgrade", x.req.upgrade)
	}
	h.SetProtocol("HTTP/1.1")
	h.SetNoDefaultContentType(true)
	h.SetRequestURIBytes(x.target)
	h.SetHostBytes(x.authority)
}

// requestFilters applies the filters that edit the request.
func (x *exchange) requestFilters(filters []routing.Filter) {
	for i := range filters {
		switch f := &filters[i]; {
		case f.RequestHeaders != nil:
			applyRequestHeaders(x.req.header, f.RequestHeaders)
		case f.Rewrite != nil:
			if f.Rewrite.Path != nil {
				x.target = rewriteTarget(x.target[:0], &x.req, f.Rewrite.Path, x.prefix)
			}
			if f.Rewrite.Hostname != "" {
				x.authority = append(x.authority[:0], f.Rewrite.Hostname...)
			}
		}
	}
}

// responseFilters applies the filters that edit the answer's head.
func (x *exchange) responseFilters() {
	h := x.resp.header
	for i := range x.rule.Filters {
		if f := x.rule.Filters[i].ResponseHeaders; f != nil {
			applyResponseHeaders(h, f)
		}
	}
	if x.ref != nil {
		for i := range x.ref.Filters {
			if f := x.ref.Filters[i].ResponseHeaders; f != nil {
				applyResponseHeaders(h, f)
			}
		}
	}
	if x.rule.CORS != nil {
		corsApply(x.rule.CORS, &x.req, h)
	}
}

// refuse answers with f and stops the pipeline.
func (x *exchange) refuse(f *failure) bool {
	x.fail(f)
	return false
}

// onModelRoute says whether the exchange speaks to a Model's clients, so that
// the gateway's own answers take their API's shape.
func (x *exchange) onModelRoute() bool {
	if x.backend != nil {
		return x.backend.Kind != routing.BackendService
	}
	if x.rule == nil {
		return x.model != nil || x.asksModel
	}
	for i := range x.rule.Backends {
		if b := x.rule.Backends[i].Backend; b != nil && b.Kind != routing.BackendService {
			return true
		}
	}
	return false
}

// queryValue is the first value of the query parameter name, nil where it is
// absent, empty or badly encoded.
func queryValue(query []byte, name string) []byte {
	for len(query) > 0 {
		var pair []byte
		pair, query, _ = bytes.Cut(query, []byte("&"))
		key, value, _ := bytes.Cut(pair, []byte("="))
		if string(key) != name {
			continue
		}
		plain, err := url.QueryUnescape(string(value))
		if err != nil || plain == "" {
			return nil
		}
		return []byte(plain)
	}
	return nil
}

// takesPart says whether a body under this method can carry keys and a model.
func takesPart(method []byte) bool {
	switch string(method) {
	case "POST", "PUT", "PATCH":
		return true
	}
	return false
}

// isFieldValue says whether v may stand as an HTTP field value.
func isFieldValue(v []byte) bool {
	for _, c := range v {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return len(bytes.TrimSpace(v)) == len(v)
}
