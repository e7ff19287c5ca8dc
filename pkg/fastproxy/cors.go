package fastproxy

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"flexinfer.ai/gateway/pkg/routing"
)

// isPreflight says whether a request is a CORS preflight (Fetch 3.3.2).
func isPreflight(req *request) bool {
	return string(req.method) == fasthttp.MethodOptions &&
		len(req.header.Peek("Origin")) > 0 &&
		len(req.header.Peek("Access-Control-Request-Method")) > 0
}

// corsPreflight answers a preflight on behalf of f. An origin that f does not
// allow gets an answer that allows nothing.
func corsPreflight(f *routing.CORSFilter, req *request, h *fasthttp.ResponseHeader) {
	l := responseFields(h)
	removeCORS(l)
	appendVary(l, "Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
	if !allowOrigin(f, req, l) {
		return
	}
	// "*" is answered with what was asked for: it means the same with
	// credentials as without, and covers Authorization, which a literal "*"
	// does not.
	allowList(l, "Access-Control-Allow-Methods", f.AllowMethods, req.header.Peek("Access-Control-Request-Method"))
	allowList(l, "Access-Control-Allow-Headers", f.AllowHeaders, req.header.Peek("Access-Control-Request-Headers"))
	exposeList(l, f)
	if f.MaxAge > 0 {
		line := l.add("Access-Control-Max-Age")
		line.value = strconv.AppendInt(line.value, int64(f.MaxAge.Seconds()), 10)
	}
}

// corsApply puts f's fields on an answer. The backend's own are removed: the
// rule's policy is the only one.
func corsApply(f *routing.CORSFilter, req *request, h *fasthttp.ResponseHeader) {
	l := responseFields(h)
	removeCORS(l)
	appendVary(l, "Origin")
	if allowOrigin(f, req, l) {
		exposeList(l, f)
	}
}

// allowOrigin adds what lets the request's origin read the answer; false: the
// request has no origin, or f does not allow it.
func allowOrigin(f *routing.CORSFilter, req *request, l *fieldList) bool {
	origin := req.header.Peek("Origin")
	if len(origin) == 0 || !originAllowed(f.AllowOrigins, origin) {
		return false
	}
	line := l.add("Access-Control-Allow-Origin")
	line.value = append(line.value, origin...)
	if f.AllowCredentials {
		line = l.add("Access-Control-Allow-Credentials")
		line.value = append(line.value, "true"...)
	}
	return true
}

// originAllowed says whether origin is one of patterns: itself, "*", or a host
// with one "*" that stands for one or more labels ("https://*.bar.com" allows
// "https://a.b.bar.com" and not "https://bar.com").
func originAllowed(patterns []string, origin []byte) bool {
	for _, p := range patterns {
		if p == "*" || sameName(p, origin) {
			return true
		}
		head, tail, found := strings.Cut(p, "*")
		if !found || len(origin) <= len(head)+len(tail) {
			continue
		}
		end := len(origin) - len(tail)
		if sameName(head, origin[:len(head)]) && sameName(tail, origin[end:]) &&
			!bytes.ContainsAny(origin[len(head):end], ":/") {
			return true
		}
	}
	return false
}

// allowList adds a list of allowed names: asked where allowed holds "*".
func allowList(l *fieldList, name string, allowed []string, asked []byte) {
	for _, v := range allowed {
		if v == "*" {
			if len(asked) > 0 {
				line := l.add(name)
				line.value = append(line.value, asked...)
			}
			return
		}
	}
	joinList(l, name, allowed)
}

func exposeList(l *fieldList, f *routing.CORSFilter) {
	joinList(l, "Access-Control-Expose-Headers", f.ExposeHeaders)
}

func joinList(l *fieldList, name string, values []string) {
	if len(values) == 0 {
		return
	}
	line := l.add(name)
	for i, v := range values {
		if i > 0 {
			line.value = append(line.value, ", "...)
		}
		line.value = appendValue(line.value, v)
	}
}

// removeCORS deletes every field of the CORS protocol.
func removeCORS(l *fieldList) {
	const prefix = "Access-Control-"
	s, kept := *l, 0
	for i := range s {
		if len(s[i].key) > len(prefix) && sameName(s[i].key[:len(prefix)], prefix) {
			continue
		}
		if i != kept {
			s[i], s[kept] = s[kept], s[i]
		}
		kept++
	}
	*l = s[:kept]
}

// appendVary tells caches that the answer depends on fields of the request.
func appendVary(l *fieldList, names string) {
	l.append("Vary", ", ", names)
}
