package translate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"flexinfer.ai/gateway/internal/spelling"
	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/routing"
)

// annotationSource is one object that may carry routing annotations.
type annotationSource struct {
	where       string // "" for the object itself, else "Service ns/name "
	annotations map[string]string
}

// lookup finds an annotation in the first source that has it.
func lookup(sources []annotationSource, key string) (value, field string, ok bool) {
	for _, s := range sources {
		if v, ok := s.annotations[key]; ok {
			return v, s.where + "metadata.annotations[" + key + "]", true
		}
	}
	return "", "", false
}

// readStrategy reads flexinfer.ai/routing; a value that is not known is found
// and means the default.
func readStrategy(sources ...annotationSource) (routing.Strategy, *finding) {
	value, field, ok := lookup(sources, v1alpha2.AnnotationRouting)
	if !ok {
		return routing.StrategyDefault, nil
	}
	switch value {
	case v1alpha2.RoutingSessionAffinity:
		return routing.StrategySession, nil
	case v1alpha2.RoutingPrefix:
		return routing.StrategyPrefix, nil
	case v1alpha2.RoutingLeastLoaded:
		return routing.StrategyLeastLoaded, nil
	}
	return routing.StrategyDefault, &finding{
		field: field,
		message: fmt.Sprintf("%q is no routing strategy, so the default is used: use %s, %s or %s, or remove the annotation",
			shorten(value), v1alpha2.RoutingSessionAffinity, v1alpha2.RoutingPrefix, v1alpha2.RoutingLeastLoaded),
	}
}

// readPriority reads flexinfer.ai/route-priority; what is no integer is found
// and counts as 0.
func readPriority(sources ...annotationSource) (int, *finding) {
	value, field, ok := lookup(sources, v1alpha2.AnnotationRoutePriority)
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
	if err != nil {
		return 0, &finding{
			field:   field,
			message: fmt.Sprintf("%q is no priority, so 0 is used: write an integer between -2147483648 and 2147483647", shorten(value)),
		}
	}
	return int(n), nil
}

// readUnknown finds annotations that are not read because of how they are spelt:
// for each known one the first, in order, that is nearly it, or has the API group
// for a prefix. Others may be anybody's.
func readUnknown(sources ...annotationSource) (found []finding) {
	for _, s := range sources {
		seen := map[string]bool{}
		for _, key := range slices.Sorted(maps.Keys(s.annotations)) {
			name, ours := strings.CutPrefix(key, v1alpha2.AnnotationPrefix)
			if ours && slices.Contains(annotationNames, name) {
				continue
			}
			if !ours {
				name, ours = strings.CutPrefix(key, v1alpha2.MistakenPrefix)
			}
			if !ours {
				continue
			}
			meant := spelling.Nearest(name, annotationNames, maxMisspelling)
			if meant == "" || seen[meant] {
				continue
			}
			seen[meant] = true
			found = append(found, finding{
				field:   s.where + "metadata.annotations[" + shorten(key) + "]",
				message: fmt.Sprintf("no annotation of this name is read, so it has no effect: write %s%s, or remove it", v1alpha2.AnnotationPrefix, meant),
			})
		}
	}
	return found
}

// annotationNames are the known annotations, without the prefix.
var annotationNames = []string{
	strings.TrimPrefix(v1alpha2.AnnotationRouting, v1alpha2.AnnotationPrefix),
	strings.TrimPrefix(v1alpha2.AnnotationRoutePriority, v1alpha2.AnnotationPrefix),
	strings.TrimPrefix(v1alpha2.AnnotationServiceLabels, v1alpha2.AnnotationPrefix),
}

// maxMisspelling is how many letters a name may differ from the known one that it
// was meant to be.
const maxMisspelling = 2

// maxServiceLabels bounds how many labels one Model may claim.
const maxServiceLabels = 10

// maxServiceLabelsLength bounds the annotation that claims them, in bytes.
const maxServiceLabelsLength = 4096

// readServiceLabels collects the service labels of a Model: of its spec and of
// the annotation on every source, sorted, each once. What cannot be the name of
// a backendRef, or is one too many, is found and left out.
func readServiceLabels(spec []v1alpha2.ServiceLabel, sources ...annotationSource) (labels []string, found []finding) {
	add := func(label, field string) {
		label = strings.TrimSpace(label)
		switch {
		case label == "" || slices.Contains(labels, label):
		case len(validation.IsDNS1123Subdomain(label)) > 0:
			found = append(found, finding{field: field,
				message: fmt.Sprintf("%q cannot be a service label: use lower-case letters, digits, '-' and '.'", label)})
		case len(labels) == maxServiceLabels:
			found = append(found, finding{field: field,
				message: fmt.Sprintf("label %q is left out: a Model claims at most %d", label, maxServiceLabels)})
		default:
			labels = append(labels, label)
		}
	}
	for i, l := range spec {
		add(string(l), fmt.Sprintf("spec.serviceLabels[%d]", i))
	}
	for _, s := range sources {
		field := s.where + "metadata.annotations[" + v1alpha2.AnnotationServiceLabels + "]"
		if n := len(s.annotations[v1alpha2.AnnotationServiceLabels]); n > maxServiceLabelsLength {
			found = append(found, finding{field: field, message: fmt.Sprintf("%d bytes long, so it is not read: use at most %d", n, maxServiceLabelsLength)})
			continue
		}
		for l := range strings.SplitSeq(s.annotations[v1alpha2.AnnotationServiceLabels], ",") {
			add(l, field)
		}
	}
	slices.Sort(labels)
	return labels, found
}

// maxShown bounds how much of a value is shown to its author, in bytes.
const maxShown = 128

// shorten cuts a value of any length for a message.
func shorten(value string) string {
	if len(value) <= maxShown {
		return value
	}
	return strings.ToValidUTF8(value[:maxShown], "") + "…"
}
