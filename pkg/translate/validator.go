package translate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// validator collects what an API server would refuse in one object.
type validator struct{ found []finding }

func (v *validator) refuse(field, format string, args ...any) {
	v.found = append(v.found, finding{field: field, message: fmt.Sprintf(format, args...)})
}

// metadata checks name, namespace and labels.
func (v *validator) metadata(o metav1.Object, kind decodableKind) {
	if o.GetName() == "" {
		v.refuse("metadata.name", "missing: name the object")
	} else if problems := kind.checkName(o.GetName()); len(problems) > 0 {
		v.refuse("metadata.name", "%q cannot be the name of a %s: use lower-case letters, digits and '-'", o.GetName(), kind.gvk.Kind)
	}
	if ns := o.GetNamespace(); ns != "" {
		namespace(v, "metadata.namespace", &ns)
	}
	for key, value := range o.GetLabels() {
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			v.refuse("metadata.labels["+key+"]", "%s", problems[0])
		}
	}
	slices.SortFunc(v.found, func(a, b finding) int { return strings.Compare(a.field, b.field) })
}

// name checks the name of another object.
func (v *validator) name(field, value string) {
	switch {
	case value == "":
		v.refuse(field, "missing: name the object that is meant")
	case len(value) > validation.DNS1123SubdomainMaxLength:
		v.refuse(field, "%d bytes long: use at most %d", len(value), validation.DNS1123SubdomainMaxLength)
	}
}

// namespace checks an optional namespace.
func namespace[T ~string](v *validator, field string, value *T) {
	if value == nil {
		return
	}
	v.label(field, string(*value))
}

// label checks a name that is a DNS label.
func (v *validator) label(field, value string) {
	if len(validation.IsDNS1123Label(value)) > 0 {
		v.refuse(field, "%q is no such name: use at most 63 lower-case letters, digits and '-'", value)
	}
}

// sectionName checks the name of a listener or rule.
func (v *validator) sectionName(field, value string) {
	if len(validation.IsDNS1123Subdomain(value)) > 0 {
		v.refuse(field, "%q is no such name: use lower-case letters, digits, '-' and '.'", value)
	}
}

func (v *validator) port(field string, port int32) {
	if port < 1 || port > 65535 {
		v.refuse(field, "%d is out of range: use 1 to 65535", port)
	}
}

func optionalPort(v *validator, field string, port *int32) {
	if port != nil {
		v.port(field, *port)
	}
}

// atMost bounds the length of a list.
func (v *validator) atMost(field string, length, most int) {
	if length > most {
		v.refuse(field, "has %d entries: use at most %d", length, most)
	}
}

// entries bounds the length of a list that must not be empty.
func (v *validator) entries(field string, length, most int) {
	if length == 0 {
		v.refuse(field, "missing: add at least one entry")
	}
	v.atMost(field, length, most)
}

// textLength bounds a text, in bytes.
func (v *validator) textLength(field, text string, least, most int) {
	switch {
	case len(text) < least:
		v.refuse(field, "missing: add it")
	case len(text) > most:
		v.refuse(field, "%d bytes long: use at most %d", len(text), most)
	}
}

// oneOf checks an enum.
func oneOf[T ~string](v *validator, field string, value T, allowed ...T) {
	if slices.Contains(allowed, value) {
		return
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	if value == "" {
		v.refuse(field, "missing: use one of %s", strings.Join(names, ", "))
		return
	}
	v.refuse(field, "%q is not known: use one of %s", value, strings.Join(names, ", "))
}

// hostname checks a Gateway API Hostname.
func (v *validator) hostname(field, value string) {
	if problem := checkHostname(value); problem != "" {
		v.refuse(field, "%s", problem)
	}
}

func checkHostname(value string) string {
	name := strings.TrimPrefix(value, "*.")
	if len(value) <= validation.DNS1123SubdomainMaxLength && len(validation.IsDNS1123Subdomain(name)) == 0 {
		return ""
	}
	return fmt.Sprintf("%q is no hostname: use lower-case labels joined by dots, with at most one leading \"*.\", and no port", value)
}

// unique finds the entries of a list that stand in it before.
func unique[T ~string](v *validator, field string, values []T) {
	for i, value := range values {
		if slices.Contains(values[:i], value) {
			v.refuse(fmt.Sprintf("%s[%d]", field, i), "%q stands in the list twice: remove it", value)
		}
	}
}

func (v *validator) pattern(field, value string, syntax *regexp.Regexp, remedy string) {
	if !syntax.MatchString(value) {
		v.refuse(field, "%q is not valid: %s", value, remedy)
	}
}
