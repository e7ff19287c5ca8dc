package fastproxy

import (
	"strconv"

	"github.com/valyala/fasthttp"
)

// failure is one of the gateway's own answers. 502 says that an engine took the
// request and failed, 503 that none could take it. The values are constants:
// nothing of a request, an address or an inner error gets into an answer.
type failure struct {
	status int
	code   string // OpenAI's `code`, Anthropic's `type`
	// message says in one line, without quotes, what is wrong and what helps.
	message string
	param   string // the request's field that is wrong; "": none
	// retryAfter in seconds goes with what a retry can mend; 0: no field.
	retryAfter int
	grpc       grpcStatus
	// limited: the message goes on with the limit of a body's size.
	limited bool
}

// Error makes a failure an error, so that a try can end with one.
func (f *failure) Error() string { return "fastproxy: " + f.message }

// The gateway's own answers.
var (
	failNoRoute = failure{status: 404, code: "not_found", grpc: grpcUnimplemented,
		message: "no route matches this host and path"}
	failModelNotFound = failure{status: 404, code: "model_not_found", param: "model", grpc: grpcNotFound,
		message: "the model does not exist on this route: check the model field of the request"}
	failNoModel = failure{status: 404, code: "model_not_found", param: "model", grpc: grpcNotFound,
		message: "the request names no model, and no route matches without one: set the model field"}
	failMisdirected = failure{status: 421, code: "misdirected_request", grpc: grpcUnavailable,
		message: "this host is served by another listener than the TLS server name of the connection: open a new connection"}
	failBadFilter = failure{status: 500, code: "internal_error", grpc: grpcInternal,
		message: "a filter of this route could not be resolved: see the route's status"}
	failNoBackend = failure{status: 500, code: "internal_error", grpc: grpcInternal,
		message: "this route has no usable backend: see the route's status"}

	failBadBody = failure{status: 400, code: "invalid_request", grpc: grpcInvalidArgument,
		message: "the request body is malformed"}
	failNoJSON = failure{status: 400, code: "invalid_request", grpc: grpcInvalidArgument,
		message: "the request body is no complete JSON object, so the model that it names cannot be read"}
	failBrokenCoding = failure{status: 400, code: "invalid_request", grpc: grpcInvalidArgument,
		message: "the request body cannot be decoded as its Content-Encoding says"}
	failUnknownCoding = failure{status: 415, code: "unsupported_media_type", grpc: grpcInvalidArgument,
		message: "the Content-Encoding of the request is not supported: use gzip, zstd, br, deflate or none"}
	failBodyTimeout = failure{status: 408, code: "request_timeout", grpc: grpcCancelled,
		message: "the request body took too long"}
	failBodyTooLarge = failure{status: 413, code: "request_too_large", grpc: grpcResourceExhausted, limited: true,
		message: "the request body is larger than the limit of"}
	failBodyMemory = failure{status: 503, code: "service_unavailable", retryAfter: 1, grpc: grpcUnavailable,
		message: "too many large requests at the same time: try again"}

	failNoEndpoint = failure{status: 503, code: "service_unavailable", retryAfter: 5, grpc: grpcUnavailable,
		message: "no replica of the model is ready: try again"}
	failConnect = failure{status: 503, code: "service_unavailable", retryAfter: 1, grpc: grpcUnavailable,
		message: "no replica of the model could be reached: try again"}
	failQueueFull = failure{status: 503, code: "queue_full", retryAfter: 5, grpc: grpcUnavailable,
		message: "the model is starting and its queue is full: try again"}
	failModelIdle = failure{status: 503, code: "model_idle", grpc: grpcUnavailable,
		message: "the model is scaled to zero and this request does not start it: send it work first"}
	failActivation = failure{status: 503, code: "activation_failed", grpc: grpcUnavailable,
		message: "the model could not be started: see the Model's status"}
	failColdTimeout = failure{status: 504, code: "timeout", grpc: grpcDeadlineExceeded,
		message: "the model did not start in time"}

	failBadGateway = failure{status: 502, code: "bad_gateway", grpc: grpcUnavailable,
		message: "the model's replica ended the request without a valid answer"}
	failTimeout = failure{status: 504, code: "timeout", grpc: grpcDeadlineExceeded,
		message: "the model's replica did not answer in time"}

	// failClientGone is never sent: it is what is counted and logged.
	failClientGone = failure{status: 499, code: "client_closed_request", grpc: grpcCancelled,
		message: "the client went away first"}
)

// fail makes f the exchange's answer, in the shape that the client's API has:
// OpenAI's or Anthropic's on Model routes, a trailers-only answer for gRPC, a
// line of text elsewhere. The rule's CORS policy is on it.
func (x *exchange) fail(f *failure) {
	x.failed = f
	x.tunnel = false
	x.resp.stream, x.resp.length = false, 0
	h := x.resp.header
	h.Reset()
	h.SetNoDefaultContentType(true)
	body := x.answerBody[:0]
	if x.req.grpc {
		h.SetStatusCode(fasthttp.StatusOK)
		setTrailersOnly(h, f)
	} else {
		h.SetStatusCode(f.status)
		body = x.appendFailure(body, f)
	}
	x.answerBody, x.resp.body = body, body
	if x.rule != nil && x.rule.CORS != nil {
		corsApply(x.rule.CORS, &x.req, h)
	}
}

// appendFailure appends f's body and sets the fields that go with it.
func (x *exchange) appendFailure(dst []byte, f *failure) []byte {
	h := x.resp.header
	if f.retryAfter > 0 {
		line := responseFields(h).add("Retry-After")
		line.value = strconv.AppendInt(line.value, int64(f.retryAfter), 10)
	}
	if f == &failUnknownCoding {
		h.Set("Accept-Encoding", acceptedCodings)
	}
	limit := x.server.options.Limits.BodyBytes
	switch {
	case !x.onModelRoute():
		h.SetContentType("text/plain; charset=utf-8")
		return append(f.appendMessage(dst, limit), '\n')
	case isMessagesPath(x.req.matchPath):
		h.SetContentType("application/json")
		return f.appendAnthropic(dst, limit)
	default:
		h.SetContentType("application/json")
		return f.appendOpenAI(dst, limit)
	}
}

func (f *failure) appendMessage(dst []byte, limit int64) []byte {
	dst = append(dst, f.message...)
	if f.limited {
		dst = strconv.AppendInt(append(dst, ' '), limit, 10)
		dst = append(dst, " bytes"...)
	}
	return dst
}

// appendOpenAI appends the error object of OpenAI's API.
// Source: https://platform.openai.com/docs/guides/error-codes
func (f *failure) appendOpenAI(dst []byte, limit int64) []byte {
	dst = append(dst, `{"error":{"message":"`...)
	dst = f.appendMessage(dst, limit)
	dst = append(dst, `","type":"`...)
	if f.status < 500 {
		dst = append(dst, "invalid_request_error"...)
	} else {
		dst = append(dst, "server_error"...)
	}
	dst = append(dst, `","param":`...)
	if f.param == "" {
		dst = append(dst, "null"...)
	} else {
		dst = append(append(append(dst, '"'), f.param...), '"')
	}
	dst = append(append(dst, `,"code":"`...), f.code...)
	return append(dst, `"}}`...)
}

// appendAnthropic appends the error object of Anthropic's API.
// Source: https://docs.anthropic.com/en/api/errors
func (f *failure) appendAnthropic(dst []byte, limit int64) []byte {
	dst = append(append(dst, `{"type":"error","error":{"type":"`...), f.code...)
	dst = f.appendMessage(append(dst, `","message":"`...), limit)
	return append(dst, `"}}`...)
}

// isMessagesPath says whether a path ends in /v1/messages or lies below it.
func isMessagesPath(path []byte) bool {
	const messages = "/v1/messages"
	for i := 0; i+len(messages) <= len(path); i++ {
		end := i + len(messages)
		if string(path[i:end]) == messages && (end == len(path) || path[end] == '/') {
			return true
		}
	}
	return false
}
