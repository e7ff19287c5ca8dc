package translate

import (
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/routing"
)

// mirror translates a mirror; nil where its backend does not resolve, since a
// mirror's failure must not touch the requests themselves.
func (b *ruleBuilder) mirror(spec *gwapiv1.HTTPRequestMirrorFilter, field string) *routing.MirrorFilter {
	key := b.t.resolve(b.route.name, spec.BackendRef, field+".backendRef", &b.route.refs)
	out := &routing.MirrorFilter{Backend: key, Numerator: 1, Denominator: 1}
	switch {
	case spec.Percent != nil && spec.Fraction != nil:
		b.refuse(field, "percent and fraction exclude each other: remove one of them")
	case spec.Percent != nil:
		out.Numerator, out.Denominator = *spec.Percent, 100
	case spec.Fraction != nil:
		out.Numerator, out.Denominator = spec.Fraction.Numerator, 100
		if spec.Fraction.Denominator != nil {
			out.Denominator = *spec.Fraction.Denominator
		}
	}
	if out.Numerator < 0 || out.Denominator < 1 || out.Numerator > out.Denominator {
		b.refuse(field, "the share %d/%d is not between none and all: correct it", out.Numerator, out.Denominator)
	}
	if key == "" {
		return nil
	}
	return out
}
