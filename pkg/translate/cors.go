package translate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/routing"
)

const (
	corsAny           = "*"
	defaultCORSMaxAge = 5 * time.Second
)

var corsOrigin = regexp.MustCompile(`^https?://((\*\.)?([a-z0-9-]+\.)*[a-z0-9-]+|\*)(:[0-9]{1,5})?$`)

func (b *ruleBuilder) cors(spec *gwapiv1.HTTPCORSFilter, field string) *routing.CORSFilter {
	out := &routing.CORSFilter{
		AllowOrigins:     b.corsList(spec.AllowOrigins, field+".allowOrigins", checkOrigin),
		AllowMethods:     b.corsMethods(spec.AllowMethods, field+".allowMethods"),
		AllowHeaders:     b.corsHeaders(spec.AllowHeaders, field+".allowHeaders"),
		ExposeHeaders:    b.corsHeaders(spec.ExposeHeaders, field+".exposeHeaders"),
		AllowCredentials: spec.AllowCredentials != nil && *spec.AllowCredentials,
		MaxAge:           time.Duration(spec.MaxAge) * time.Second,
	}
	if spec.MaxAge < 0 {
		b.refuse(field+".maxAge", "%d is negative: use at least 1 second", spec.MaxAge)
	}
	if spec.MaxAge == 0 {
		out.MaxAge = defaultCORSMaxAge
	}
	return out
}

// corsList checks a list whose one wildcard stands alone. Origins compare in
// lower case, as browsers send them.
func (b *ruleBuilder) corsList(specs []gwapiv1.CORSOrigin, field string, check func(string) string) []string {
	var out []string
	for i, s := range specs {
		value := strings.ToLower(string(s))
		if problem := check(value); problem != "" {
			b.refuse(fmt.Sprintf("%s[%d]", field, i), "%s", problem)
			continue
		}
		out = append(out, value)
	}
	b.requireLoneWildcard(out, field)
	return out
}

func checkOrigin(origin string) string {
	if origin == corsAny || corsOrigin.MatchString(origin) {
		return ""
	}
	return fmt.Sprintf("%q is no origin: write https://app.example.com, https://*.example.com or *", origin)
}

func (b *ruleBuilder) corsMethods(specs []gwapiv1.HTTPMethodWithWildcard, field string) []string {
	var out []string
	for i, s := range specs {
		if m := string(s); m != corsAny && !slices.Contains(httpMethods, m) {
			b.refuse(fmt.Sprintf("%s[%d]", field, i), "%q is not known: use one of %s or *", m, strings.Join(httpMethods, ", "))
			continue
		}
		out = append(out, string(s))
	}
	b.requireLoneWildcard(out, field)
	return out
}

func (b *ruleBuilder) corsHeaders(specs []gwapiv1.HTTPHeaderName, field string) []string {
	var out []string
	for i, s := range specs {
		if !headerName.MatchString(string(s)) {
			b.refuse(fmt.Sprintf("%s[%d]", field, i), "%q is no header name: use letters, digits and '-'", s)
			continue
		}
		out = append(out, string(s))
	}
	b.requireLoneWildcard(out, field)
	return out
}

func (b *ruleBuilder) requireLoneWildcard(values []string, field string) {
	if len(values) > 1 && slices.Contains(values, corsAny) {
		b.refuse(field, "* already stands for all: remove the other entries")
	}
}
