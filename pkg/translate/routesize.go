package translate

import (
	"encoding/json"
	"fmt"
	"strconv"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// MaxRouteBytes bounds the spec of an HTTPRoute that is served, in bytes of JSON.
// What a route costs grows with it: several times its size in every process that
// serves it.
const MaxRouteBytes = 128 << 10

// OversizeRoute is how many bytes the spec of a route takes as JSON where they are
// more than MaxRouteBytes; else 0. Of a route without rules an annotation may say
// it, AnnotationRouteBytes.
func OversizeRoute(r *gwapiv1.HTTPRoute) int {
	if len(r.Spec.Rules) == 0 {
		if n, err := strconv.Atoi(r.Annotations[v1alpha2.AnnotationRouteBytes]); err == nil && n > MaxRouteBytes {
			return n
		}
	}
	if plainlySmall(&r.Spec) {
		return 0
	}
	var n byteCount
	e := json.NewEncoder(&n)
	e.SetEscapeHTML(false)
	if err := e.Encode(&r.Spec); err != nil {
		return 0 // nothing in a spec fails to encode
	}
	if size := int(n) - 1; size > MaxRouteBytes { // the encoder ends with a newline
		return size
	}
	return 0
}

// refuseOversize is why a route is not served because of its size; nil: it is.
func refuseOversize(r *gwapiv1.HTTPRoute) *finding {
	n := OversizeRoute(r)
	if n == 0 {
		return nil
	}
	return &finding{
		reason:  string(gwapiv1.RouteReasonUnsupportedValue),
		message: fmt.Sprintf("the spec takes %d bytes as JSON, and at most %d are served: split it into several HTTPRoutes", n, MaxRouteBytes),
	}
}

// byteCount counts what is written to it.
type byteCount int

func (c *byteCount) Write(p []byte) (int, error) {
	*c += byteCount(len(p))
	return len(p), nil
}

// plainlySmall spares most routes the encoding. It counts more than JSON can take:
// a byte of text becomes six at most, and what is around the texts of an element
// is shorter than its overhead here. Of filters and the rarer fields it knows
// nothing, so that routes with some are encoded.
func plainlySmall(s *gwapiv1.HTTPRouteSpec) bool {
	text, around := 0, 256
	for i := range s.ParentRefs {
		p := &s.ParentRefs[i]
		text += length(p.Group) + length(p.Kind) + length(p.Namespace) + len(p.Name) + length(p.SectionName)
		around += 160
	}
	for _, h := range s.Hostnames {
		text += len(h)
		around += 8
	}
	text += len(s.UseDefaultGateways)
	for i := range s.Rules {
		r := &s.Rules[i]
		if len(r.Filters) > 0 || r.Timeouts != nil || r.Retry != nil || r.SessionPersistence != nil { //nolint:staticcheck // may be large as long as the API has the field
			return false
		}
		text += length(r.Name)
		around += 128
		for j := range r.Matches {
			m := &r.Matches[j]
			if m.Path != nil {
				text += length(m.Path.Type) + length(m.Path.Value)
			}
			text += length(m.Method)
			around += 160
			for k := range m.Headers {
				h := &m.Headers[k]
				text += length(h.Type) + len(h.Name) + len(h.Value)
			}
			for k := range m.QueryParams {
				q := &m.QueryParams[k]
				text += length(q.Type) + len(q.Name) + len(q.Value)
			}
			around += 64 * (len(m.Headers) + len(m.QueryParams))
		}
		for j := range r.BackendRefs {
			b := &r.BackendRefs[j]
			if len(b.Filters) > 0 {
				return false
			}
			text += length(b.Group) + length(b.Kind) + len(b.Name) + length(b.Namespace)
			around += 160
		}
	}
	return 6*text+around <= MaxRouteBytes
}

func length[T ~string](s *T) int {
	if s == nil {
		return 0
	}
	return len(*s)
}
