package fastproxy

import (
	"strconv"

	"flexinfer.ai/gateway/pkg/routing"
)

// redirectLocation appends the Location of f's redirect: scheme, host and path
// of the filter or else of the request, the request's query as received. The
// port is the filter's; else that of the filter's scheme; else the listener's.
// A scheme's usual port is left out.
func redirectLocation(dst []byte, req *request, f *routing.RedirectFilter, prefix string, listenerPort uint16) []byte {
	scheme := f.Scheme
	if scheme == "" {
		scheme = "http"
		if req.tls {
			scheme = "https"
		}
	}
	port := f.Port
	if port == 0 && f.Scheme == "" {
		port = listenerPort
	}
	if port == usualPort(scheme) {
		port = 0
	}
	if f.Hostname != "" || len(req.host) > 0 {
		dst = append(append(dst, scheme...), "://"...)
		if f.Hostname != "" {
			dst = append(dst, f.Hostname...)
		} else {
			dst = append(dst, req.host...)
		}
		if port != 0 {
			dst = strconv.AppendUint(append(dst, ':'), uint64(port), 10)
		}
	}
	dst = appendRewrittenPath(dst, req, f.Path, prefix)
	return append(dst, req.target[len(req.path):]...)
}

func usualPort(scheme string) uint16 {
	switch scheme {
	case "http":
		return 80
	case "https":
		return 443
	}
	return 0
}
