package fastproxy

import "flexinfer.ai/gateway/pkg/routing"

// rewriteTarget appends the request's target with its path replaced as p says.
// What is kept of path and query is kept byte for byte as received. prefix is
// the matched prefix in canonical form, "" for "/" (routing.MatchedRule). dst
// must not share memory with the request.
func rewriteTarget(dst []byte, req *request, p *routing.PathRewrite, prefix string) []byte {
	dst = appendRewrittenPath(dst, req, p, prefix)
	return append(dst, req.target[len(req.path):]...)
}

// appendRewrittenPath appends the request's path as p changes it; p may be nil.
// The result begins with one slash. Slashes meet as in the Gateway API's table
// for ReplacePrefixMatch: "/foo/bar" with "/foo" -> "/xyz/" is "/xyz/bar",
// "/foo" with "/foo" -> "" is "/".
func appendRewrittenPath(dst []byte, req *request, p *routing.PathRewrite, prefix string) []byte {
	if p == nil {
		return append(dst, req.path...)
	}
	start := len(dst)
	if p.Type == routing.ReplaceFullPath {
		dst = appendPath(dst, p.Value)
	} else {
		rest := routing.PathAfter(req.path, req.matchPath, len(prefix))
		dst = appendPath(dst, p.Value)
		if len(rest) > 0 {
			for len(dst) > start && dst[len(dst)-1] == '/' {
				dst = dst[:len(dst)-1]
			}
		}
		dst = append(dst, rest...)
	}
	if len(dst) == start {
		dst = append(dst, '/')
	}
	return dst
}

// appendPath appends a configured path, encoding what would end a path or a
// line.
func appendPath(dst []byte, path string) []byte {
	if path != "" && path[0] != '/' {
		dst = append(dst, '/')
	}
	for i := range len(path) {
		c := path[i]
		if c <= ' ' || c >= 0x7f || c == '?' || c == '#' {
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}
