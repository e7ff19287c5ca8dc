package fastproxy

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// The fields that concern one hop only (RFC 9110 7.6.1, and those that older
// clients and engines send in their place) end here in both directions.
//
// Via is not added: it would tell engines and clients nothing that the
// X-Forwarded fields do not, and some engines' servers switch compression off
// when they see it.

// stripHopByHop removes what concerns the client's hop only: the hop-by-hop
// fields, whatever Connection nominates, and a TE other than trailers. Upgrade
// goes too; a tunnel's head gets its own.
func stripHopByHop(h *fasthttp.RequestHeader) {
	l := requestFields(h)
	for i := l.index("Connection"); i >= 0; i = l.index("Connection") {
		line := l.take(i)
		removeNominated(l, line.value)
		if hasToken(line.value, "user-agent") {
			h.Del("User-Agent")
		}
	}
	stripHopFields(h)
}

// stripHopFields removes the hop-by-hop fields alone.
func stripHopFields(h *fasthttp.RequestHeader) {
	requestFields(h).removeHop(true)
}

// stripResponseHopByHop is stripHopByHop for an engine's answer. An answer that
// switches protocols keeps its Connection and Upgrade.
func stripResponseHopByHop(h *fasthttp.ResponseHeader) {
	if h.StatusCode() == fasthttp.StatusSwitchingProtocols {
		return
	}
	l := responseFields(h)
	for i := l.index("Connection"); i >= 0; i = l.index("Connection") {
		line := l.take(i)
		removeNominated(l, line.value)
		if hasToken(line.value, "server") {
			h.Del("Server")
		}
		if hasToken(line.value, "set-cookie") {
			h.DelAllCookies()
		}
	}
	l.removeHop(false)
}

// isHopField says whether a canonical field name is of one hop.
func isHopField(key []byte) bool {
	switch string(key) {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate",
		"Proxy-Authorization", "Te", "Transfer-Encoding", "Trailer", "Upgrade", "Http2-Settings":
		return true
	}
	return false
}

// reduceTE makes a TE field "trailers" where it has that; false: it goes. gRPC
// engines insist on it.
func reduceTE(f *headerField) bool {
	if string(f.key) != "Te" || !hasToken(f.value, "trailers") {
		return false
	}
	f.value = append(f.value[:0], "trailers"...)
	return true
}

// removeNominated removes the fields that a Connection line names. Fields that a
// message cannot do without, and those that say where it came from, cannot be
// nominated away.
func removeNominated(l *fieldList, connection []byte) {
	for len(connection) > 0 {
		var token []byte
		token, connection = nextToken(connection)
		if len(token) > 0 && !isConnectionOption(token) && !isEndToEnd(token) {
			removeLines(l, token, 0)
		}
	}
}

// isConnectionOption says whether a token of Connection is an option itself or
// names a field that goes anyway.
func isConnectionOption(token []byte) bool {
	return equalFold(token, "close") || equalFold(token, "keep-alive") ||
		equalFold(token, "upgrade") || equalFold(token, "te")
}

func isEndToEnd(token []byte) bool {
	const forwarded, content = "x-forwarded-", "content-"
	return equalFold(token, "host") ||
		len(token) > len(forwarded) && equalFold(token[:len(forwarded)], forwarded) ||
		len(token) > len(content) && equalFold(token[:len(content)], content)
}

// nextToken cuts the first element off a comma-separated list.
func nextToken(list []byte) (token, rest []byte) {
	token, rest, _ = bytes.Cut(list, []byte{','})
	return trimOWS(token), rest
}

// hasToken says whether a comma-separated list has the element, parameters
// aside, without case. element must be in lower case.
func hasToken(list []byte, element string) bool {
	for len(list) > 0 {
		var token []byte
		token, list = nextToken(list)
		token, _, _ = bytes.Cut(token, []byte{';'})
		if equalFold(trimOWS(token), element) {
			return true
		}
	}
	return false
}

// forwardedFields tells the engine where the request came from: the client's
// address at the end of X-Forwarded-For, and scheme and host as the gateway saw
// them, in the place of what a client may have claimed.
func forwardedFields(h *fasthttp.RequestHeader, req *request) {
	l := requestFields(h)
	if ip := addressOf(req.remote); len(ip) > 0 {
		_, i := l.count("X-Forwarded-For")
		var f *headerField
		if i >= 0 {
			f = &(*l)[i]
			if len(f.value) > 0 {
				f.value = append(f.value, ", "...)
			}
		} else {
			f = l.add("X-Forwarded-For")
		}
		f.value = append(f.value, ip...)
	}
	scheme := "http"
	if req.tls {
		scheme = "https"
	}
	l.set("X-Forwarded-Proto", scheme)
	removeLines(l, "X-Forwarded-Host", 0)
	if len(req.authority) > 0 {
		f := l.add("X-Forwarded-Host")
		f.value = append(f.value, req.authority...)
	}
}

// addressOf is the IP address of "ip:port" or "[ip]:port".
func addressOf(remote []byte) []byte {
	i := bytes.LastIndexByte(remote, ':')
	if i < 0 {
		return remote
	}
	ip := remote[:i]
	if len(ip) > 1 && ip[0] == '[' && ip[len(ip)-1] == ']' {
		ip = ip[1 : len(ip)-1]
	}
	return ip
}
