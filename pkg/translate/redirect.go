package translate

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/routing"
)

// redirectStatuses are the statuses that a redirect may answer with.
var redirectStatuses = []int{301, 302, 303, 307, 308}

const defaultRedirectStatus = 302

func (b *ruleBuilder) redirect(spec *gwapiv1.HTTPRequestRedirectFilter, field string) *routing.RedirectFilter {
	out := &routing.RedirectFilter{
		Scheme:   deref(spec.Scheme, ""),
		Hostname: b.preciseHostname(spec.Hostname, field+".hostname"),
		Path:     b.pathRewrite(spec.Path, field+".path"),
		Status:   defaultRedirectStatus,
	}
	if out.Scheme != "" && out.Scheme != "http" && out.Scheme != "https" {
		b.refuse(field+".scheme", "%q is not supported: use http or https", out.Scheme)
	}
	if spec.Port != nil {
		port, ok := portNumber(*spec.Port)
		if !ok {
			b.refuse(field+".port", "%d is out of range: use 1 to 65535", *spec.Port)
		}
		out.Port = port
	}
	if spec.StatusCode != nil {
		out.Status = *spec.StatusCode
	}
	if !slices.Contains(redirectStatuses, out.Status) {
		b.refuse(field+".statusCode", "%d is not supported: use 301, 302, 303, 307 or 308", out.Status)
	}
	return out
}

func (b *ruleBuilder) rewrite(spec *gwapiv1.HTTPURLRewriteFilter, field string) *routing.RewriteFilter {
	return &routing.RewriteFilter{
		Hostname: b.preciseHostname(spec.Hostname, field+".hostname"),
		Path:     b.pathRewrite(spec.Path, field+".path"),
	}
}

func (b *ruleBuilder) preciseHostname(spec *gwapiv1.PreciseHostname, field string) string {
	if spec == nil {
		return ""
	}
	name := strings.ToLower(string(*spec))
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		b.refuse(field, "%q is no hostname: use lower-case labels joined by dots, without a wildcard or port", *spec)
	}
	return name
}

func (b *ruleBuilder) pathRewrite(spec *gwapiv1.HTTPPathModifier, field string) *routing.PathRewrite {
	if spec == nil {
		return nil
	}
	out := &routing.PathRewrite{Type: routing.PathRewriteType(spec.Type)}
	switch spec.Type {
	case gwapiv1.FullPathHTTPPathModifier:
		out.Value = b.replacement(spec.ReplaceFullPath, field+".replaceFullPath")
	case gwapiv1.PrefixMatchHTTPPathModifier:
		out.Value = b.replacement(spec.ReplacePrefixMatch, field+".replacePrefixMatch")
		b.requirePrefixMatches(field)
	default:
		b.refuse(field+".type", "%q is not known: use ReplaceFullPath or ReplacePrefixMatch", spec.Type)
	}
	return out
}

// replacement checks a path that takes the place of a request's path or of its
// prefix; empty means "/".
func (b *ruleBuilder) replacement(spec *string, field string) string {
	if spec == nil {
		b.refuse(field, "missing: add the path that replaces the request's")
		return "/"
	}
	if *spec == "" {
		return "/"
	}
	if problem := checkPathSyntax(*spec); problem != "" {
		b.refuse(field, "%s", problem)
	}
	return *spec
}

// requirePrefixMatches refuses to replace a prefix where a match of the rule has
// none. A rule without matches has the prefix "/".
func (b *ruleBuilder) requirePrefixMatches(field string) {
	for _, m := range b.spec.Matches {
		if m.Path != nil && m.Path.Type != nil && *m.Path.Type != gwapiv1.PathMatchPathPrefix {
			b.refuse(field+".type", "ReplacePrefixMatch needs matches of type PathPrefix: change the rule's matches or use ReplaceFullPath")
			return
		}
	}
}
