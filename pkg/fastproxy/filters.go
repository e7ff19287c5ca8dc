package fastproxy

import (
	"github.com/valyala/fasthttp"

	"flexinfer.ai/gateway/pkg/routing"
)

// applyRequestHeaders edits a request's header by f: remove deletes all values
// of a name, set replaces them all, add appends to them. It allocates nothing
// once the header's memory has grown to what the filter needs.
func applyRequestHeaders(h *fasthttp.RequestHeader, f *routing.HeaderFilter) {
	for _, name := range f.Remove {
		removeRequestField(h, name)
	}
	for i := range f.Set {
		setRequestField(h, f.Set[i].Name, f.Set[i].Value)
	}
	for i := range f.Add {
		addRequestField(h, f.Add[i].Name, f.Add[i].Value)
	}
}

// applyResponseHeaders is applyRequestHeaders for an answer.
func applyResponseHeaders(h *fasthttp.ResponseHeader, f *routing.HeaderFilter) {
	for _, name := range f.Remove {
		removeResponseField(h, name)
	}
	for i := range f.Set {
		setResponseField(h, f.Set[i].Name, f.Set[i].Value)
	}
	for i := range f.Add {
		addResponseField(h, f.Add[i].Name, f.Add[i].Value)
	}
}

func removeRequestField(h *fasthttp.RequestHeader, name string) {
	removeLines(requestFields(h), name, 0)
	if isApartInRequest(name) {
		h.Del(name)
	}
}

func setRequestField(h *fasthttp.RequestHeader, name, value string) {
	switch {
	case sameName(name, "Cookie"):
		removeRequestField(h, name)
		f := requestFields(h).add(name)
		f.value = appendValue(f.value, value)
	case isApartInRequest(name):
		removeLines(requestFields(h), name, 0)
		h.Set(name, value)
	default:
		requestFields(h).set(name, value)
	}
}

func addRequestField(h *fasthttp.RequestHeader, name, value string) {
	switch {
	case sameName(name, "Cookie"):
		l := requestFields(h)
		if l.index(name) < 0 {
			// fasthttp may have taken the line apart already
			if kept := string(h.Peek(name)); kept != "" {
				h.Del(name)
				l.set(name, kept)
			}
		}
		l.append(name, "; ", value)
	case sameName(name, "Host"):
		h.SetHost(value) // a request has one Host
	case isApartInRequest(name):
		if old := h.Peek(name); len(old) > 0 {
			value = string(old) + "," + value
		}
		h.Set(name, value)
	default:
		requestFields(h).append(name, ",", value)
	}
}

// isApartInRequest says whether fasthttp keeps the field outside of the list of
// a request's field lines.
func isApartInRequest(name string) bool {
	switch len(name) {
	case len("Host"):
		return sameName(name, "Host")
	case len("Cookie"):
		return sameName(name, "Cookie")
	case len("User-Agent"):
		return sameName(name, "User-Agent")
	case len("Content-Type"):
		return sameName(name, "Content-Type")
	}
	return false
}

func removeResponseField(h *fasthttp.ResponseHeader, name string) {
	removeLines(responseFields(h), name, 0)
	if isApartInResponse(name) {
		h.Del(name)
	}
}

func setResponseField(h *fasthttp.ResponseHeader, name, value string) {
	switch {
	case sameName(name, "Set-Cookie"):
		h.DelAllCookies()
		h.Add(name, value)
	case isApartInResponse(name):
		removeLines(responseFields(h), name, 0)
		h.Set(name, value)
	default:
		responseFields(h).set(name, value)
	}
}

func addResponseField(h *fasthttp.ResponseHeader, name, value string) {
	switch {
	case sameName(name, "Set-Cookie"):
		h.Add(name, value) // cookies cannot share a line
	case isApartInResponse(name):
		if old := h.Peek(name); len(old) > 0 {
			value = string(old) + "," + value
		}
		h.Set(name, value)
	default:
		responseFields(h).append(name, ",", value)
	}
}

// isApartInResponse says whether fasthttp keeps the field outside of the list
// of an answer's field lines.
func isApartInResponse[N []byte | string](name N) bool {
	switch len(name) {
	case len("Server"):
		return sameName(name, "Server")
	case len("Set-Cookie"):
		return sameName(name, "Set-Cookie")
	case len("Content-Type"):
		return sameName(name, "Content-Type")
	case len("Content-Encoding"):
		return sameName(name, "Content-Encoding")
	}
	return false
}
