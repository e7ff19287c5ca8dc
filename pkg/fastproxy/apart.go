package fastproxy

import "github.com/valyala/fasthttp"

// Of the fields that fasthttp keeps apart from its list it has room for one line
// each. Where a message has several, the first that is not empty stands there,
// and the others join the list, so that all go on. A Content-Type of several
// lines is refused in a request: whoever reads another line than we do may find
// another model in the body.

// receiveRequestField adds a field as received, but for Host, which each front
// sets. name is a token and value one that a field may have.
func receiveRequestField(h *fasthttp.RequestHeader, name, value []byte) {
	switch len(name) {
	case len("User-Agent"):
		if sameName(name, "User-Agent") {
			if len(value) == 0 {
				return
			}
			if len(h.UserAgent()) == 0 {
				h.SetUserAgentBytes(value)
				return
			}
		}
	case len("Content-Type"):
		if sameName(name, "Content-Type") {
			h.SetContentTypeBytes(value)
			return
		}
	}
	f := addLine(requestFields(h), name)
	f.value = append(f.value, value...)
}

// receiveResponseField is receiveRequestField for an engine's answer, of which h
// has no default Content-Type.
func receiveResponseField(h *fasthttp.ResponseHeader, name, value []byte) {
	if isApartInResponse(name) { // its length tells which
		switch {
		case len(name) == len("Set-Cookie"):
			h.AddBytesV("Set-Cookie", value)
			return
		case len(value) == 0:
			return
		case len(name) == len("Server") && len(h.Server()) == 0:
			h.SetServerBytes(value)
			return
		case len(name) == len("Content-Type") && len(h.ContentType()) == 0:
			h.SetContentTypeBytes(value)
			return
		case len(name) == len("Content-Encoding") && len(h.ContentEncoding()) == 0:
			h.SetContentEncodingBytes(value)
			return
		}
	}
	f := addLine(responseFields(h), name)
	f.value = append(f.value, value...)
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
