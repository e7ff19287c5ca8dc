package translate

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const kindHTTPRoute gwapiv1.Kind = "HTTPRoute"

// protocolKinds are the route kinds that a listener of each supported protocol
// can serve.
var protocolKinds = map[gwapiv1.ProtocolType][]gwapiv1.Kind{
	gwapiv1.HTTPProtocolType:  {kindHTTPRoute},
	gwapiv1.HTTPSProtocolType: {kindHTTPRoute},
}

// allowedNamespaces decides which namespaces' routes may attach.
type allowedNamespaces struct {
	all      bool
	same     string          // this namespace only, if not empty
	selector labels.Selector // else by the namespace's labels; nil: none
}

func (a allowedNamespaces) allows(namespace string, set labels.Set) bool {
	switch {
	case a.all:
		return true
	case a.same != "":
		return a.same == namespace
	}
	return a.selector != nil && a.selector.Matches(set)
}

// readAllowedNamespaces reads allowedRoutes.namespaces of a listener in the
// Gateway's namespace; absent means Same.
func readAllowedNamespaces(allowed *gwapiv1.AllowedRoutes, namespace, field string) (allowedNamespaces, *finding) {
	from := gwapiv1.NamespacesFromSame
	var spec gwapiv1.RouteNamespaces
	if allowed != nil && allowed.Namespaces != nil {
		spec = *allowed.Namespaces
	}
	if spec.From != nil {
		from = *spec.From
	}
	switch from {
	case gwapiv1.NamespacesFromAll:
		return allowedNamespaces{all: true}, nil
	case gwapiv1.NamespacesFromSame:
		return allowedNamespaces{same: namespace}, nil
	case gwapiv1.NamespacesFromNone:
		return allowedNamespaces{}, nil
	case gwapiv1.NamespacesFromSelector:
		return readSelector(spec.Selector, field+".selector")
	}
	return allowedNamespaces{}, unsupportedListenerValue(field+".from",
		fmt.Sprintf("%q is not known: use All, Selector or Same", from))
}

func readSelector(spec *metav1.LabelSelector, field string) (allowedNamespaces, *finding) {
	if spec == nil {
		return allowedNamespaces{}, unsupportedListenerValue(field, "missing, though from is Selector: add it or use another from")
	}
	selector, err := metav1.LabelSelectorAsSelector(spec)
	if err != nil {
		return allowedNamespaces{}, unsupportedListenerValue(field, err.Error()+": correct the selector")
	}
	return allowedNamespaces{selector: selector}, nil
}

// readAllowedKinds reads allowedRoutes.kinds: the kinds that the listener
// supports of those it names, or all that its protocol supports where it names
// none. Kinds that it cannot serve are found.
func readAllowedKinds(l gwapiv1.Listener, field string) (kinds []gwapiv1.Kind, found []finding) {
	known := protocolKinds[l.Protocol]
	if l.AllowedRoutes == nil || len(l.AllowedRoutes.Kinds) == 0 {
		return known, nil
	}
	for i, k := range l.AllowedRoutes.Kinds {
		group := deref(k.Group, gwapiv1.GroupName)
		switch {
		case group != gwapiv1.GroupName || !slices.Contains(known, k.Kind):
			found = append(found, finding{
				reason: string(gwapiv1.ListenerReasonInvalidRouteKinds),
				field:  fmt.Sprintf("%s[%d]", field, i),
				message: fmt.Sprintf("a listener of protocol %s cannot serve routes of kind %s: use %s",
					l.Protocol, groupKind(group, string(k.Kind)), joinKinds(known)),
			})
		case !slices.Contains(kinds, k.Kind):
			kinds = append(kinds, k.Kind)
		}
	}
	return kinds, found
}

func joinKinds(kinds []gwapiv1.Kind) string {
	s := ""
	for i, k := range kinds {
		if i > 0 {
			s += " or "
		}
		s += string(k)
	}
	return s
}

func unsupportedListenerValue(field, message string) *finding {
	return &finding{reason: string(gwapiv1.ListenerReasonUnsupportedValue), field: field, message: message}
}
