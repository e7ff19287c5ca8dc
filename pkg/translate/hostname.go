package translate

import (
	"slices"
	"strings"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Hostnames here are lower-case; "" takes every host and "*.example.com" one or
// more labels in front of .example.com (Gateway API, Listener.hostname).

// intersects reports whether some host is taken by both hostnames.
func intersects(a, b string) bool {
	switch {
	case a == "" || b == "" || a == b:
		return true
	case isWildcard(a) && isWildcard(b):
		return strings.HasSuffix(a, b[1:]) || strings.HasSuffix(b, a[1:])
	case isWildcard(a):
		return underWildcard(b, a)
	case isWildcard(b):
		return underWildcard(a, b)
	}
	return false
}

func isWildcard(hostname string) bool { return strings.HasPrefix(hostname, "*.") }

// underWildcard reports whether host has at least one label in front of the
// wildcard's domain.
func underWildcard(host, wildcard string) bool {
	domain := wildcard[1:]
	return len(host) > len(domain) && strings.HasSuffix(host, domain)
}

// readHostnames are a route's hostnames in lower case, in their order, each
// once. What is no hostname takes no host and is left out.
func readHostnames(spec []gwapiv1.Hostname) []string {
	var out []string
	for _, h := range spec {
		name := strings.ToLower(string(h))
		if !slices.Contains(out, name) && checkHostname(name) == "" {
			out = append(out, name)
		}
	}
	return out
}

// hostnamesOn are the route's hostnames that intersect the listener's, in their
// order. ok is false where the route names hostnames and none intersects; a
// route that names none takes every host: nil, true.
func (r *routeState) hostnamesOn(l *listenerState) (hostnames []string, ok bool) {
	if len(r.obj.Spec.Hostnames) == 0 {
		return nil, true
	}
	for _, name := range r.hostnames {
		if intersects(name, l.hostname) {
			hostnames = append(hostnames, name)
		}
	}
	return hostnames, len(hostnames) > 0
}
