package fastproxy

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// Of the fields that fasthttp keeps apart from its list it has room for one line
// each, the last. Where a message has several, the first that is not empty
// stands there, and the others join the list, so that all go on. A Content-Type
// of several lines is refused in a request: whoever reads another line than we
// do may find another model in the body.

// addAgent adds a User-Agent line.
func addAgent(h *fasthttp.RequestHeader, value []byte) {
	switch {
	case len(value) == 0:
	case len(h.UserAgent()) == 0:
		h.SetUserAgentBytes(value)
	default:
		f := requestFields(h).add(fasthttp.HeaderUserAgent)
		f.value = append(f.value, value...)
	}
}

// readAgents gives h all User-Agent lines of its head in place of the last.
func readAgents(h *fasthttp.RequestHeader, head []byte) {
	h.SetUserAgentBytes(nil)
	for line, rest := headLine(head); len(line) > 0; line, rest = headLine(rest) {
		if name, value, _ := bytes.Cut(line, []byte{':'}); sameName(name, fasthttp.HeaderUserAgent) {
			addAgent(h, trimOWS(value))
		}
	}
}

// readApart gives h all Content-Type, Content-Encoding and Server lines of its
// head in place of the last of each.
func readApart(h *fasthttp.ResponseHeader, head []byte) {
	h.SetContentTypeBytes(nil)
	h.SetContentEncodingBytes(nil)
	h.SetServerBytes(nil)
	for line, rest := headLine(head); len(line) > 0; line, rest = headLine(rest) {
		name, value, _ := bytes.Cut(line, []byte{':'})
		switch value = trimOWS(value); {
		case len(value) == 0:
		case sameName(name, fasthttp.HeaderContentType) && len(h.ContentType()) == 0:
			h.SetContentTypeBytes(value)
		case sameName(name, fasthttp.HeaderContentEncoding) && len(h.ContentEncoding()) == 0:
			h.SetContentEncodingBytes(value)
		case sameName(name, fasthttp.HeaderServer) && len(h.Server()) == 0:
			h.SetServerBytes(value)
		case sameName(name, fasthttp.HeaderContentType),
			sameName(name, fasthttp.HeaderContentEncoding), sameName(name, fasthttp.HeaderServer):
			f := responseFields(h).add(string(name))
			f.value = append(f.value, value...)
		}
	}
}

// appendCodings appends the values of all Content-Encoding lines of h, as one.
func appendCodings(dst []byte, h *fasthttp.RequestHeader) []byte {
	for _, f := range *requestFields(h) {
		if !sameName(f.key, fasthttp.HeaderContentEncoding) {
			continue
		}
		if len(dst) > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, f.value...)
	}
	return dst
}
