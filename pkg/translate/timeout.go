package translate

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/routing"
)

// durationSyntax is the Gateway API's Duration (GEP-2257).
var durationSyntax = regexp.MustCompile(`^([0-9]{1,5}(h|m|s|ms)){1,4}$`)

// parseDuration reads a Duration.
func parseDuration(s string) (time.Duration, bool) {
	if !durationSyntax.MatchString(s) {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}

func invalidDuration(field, value string) finding {
	return finding{
		reason:  string(gwapiv1.RouteReasonUnsupportedValue),
		field:   field,
		message: fmt.Sprintf("%q is no duration: write up to four numbers with a unit of h, m, s or ms, such as 90s or 1h30m", value),
	}
}

func (b *ruleBuilder) duration(spec *gwapiv1.Duration, field string) time.Duration {
	if spec == nil {
		return 0
	}
	d, ok := parseDuration(string(*spec))
	if !ok {
		b.invalid = append(b.invalid, invalidDuration(field, string(*spec)))
	}
	return d
}

// timeouts are the rule's time limits; 0 is none, as 0s is in the spec.
func (b *ruleBuilder) timeouts() (request, backend time.Duration) {
	spec := b.spec.Timeouts
	if spec == nil {
		return 0, 0
	}
	request = b.duration(spec.Request, b.field+".timeouts.request")
	backend = b.duration(spec.BackendRequest, b.field+".timeouts.backendRequest")
	if request > 0 && backend > request {
		b.refuse(b.field+".timeouts.backendRequest", "%s is longer than the request's %s: shorten it", backend, request)
	}
	return request, backend
}

// defaultRetryAttempts is the number of further tries where a retry says none.
const defaultRetryAttempts = 1

// retry is the rule's retry policy; nil where it has none. Zero attempts are
// kept, since they forbid what the data plane would try by itself.
func (b *ruleBuilder) retry() *routing.Retry {
	spec := b.spec.Retry
	if spec == nil {
		return nil
	}
	out := &routing.Retry{Attempts: defaultRetryAttempts, Backoff: b.duration(spec.Backoff, b.field+".retry.backoff")}
	if spec.Attempts != nil {
		out.Attempts = *spec.Attempts
	}
	if out.Attempts < 0 {
		b.refuse(b.field+".retry.attempts", "%d is negative: use 0 for no retries", out.Attempts)
	}
	for i, code := range spec.Codes {
		if code < 400 || code > 599 {
			b.refuse(fmt.Sprintf("%s.retry.codes[%d]", b.field, i), "%d is no error status: use 400 to 599", code)
			continue
		}
		out.Codes = append(out.Codes, int(code))
	}
	slices.Sort(out.Codes)
	out.Codes = slices.Compact(out.Codes)
	return out
}
