package translate

import (
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// grantKey is one permission: objects of one kind in one namespace may refer to
// objects of another kind in another namespace. An empty name covers them all.
type grantKey struct {
	fromGroup, fromKind, fromNamespace     string
	toGroup, toKind, toNamespace, toObject string
}

// grantSet holds every permission that ReferenceGrants give.
type grantSet map[grantKey]bool

func newGrantSet(grants []*gwapiv1.ReferenceGrant) grantSet {
	set := grantSet{}
	for _, g := range grants {
		for _, from := range g.Spec.From {
			for _, to := range g.Spec.To {
				set[grantKey{
					fromGroup:     string(from.Group),
					fromKind:      string(from.Kind),
					fromNamespace: string(from.Namespace),
					toGroup:       string(to.Group),
					toKind:        string(to.Kind),
					toNamespace:   g.Namespace,
					toObject:      deref(to.Name, ""),
				}] = true
			}
		}
	}
	return set
}

// allows reports whether the reference is permitted: within one namespace
// always, across namespaces by a grant for the object's name or for all.
func (s grantSet) allows(k grantKey) bool {
	if k.fromNamespace == k.toNamespace || s[k] {
		return true
	}
	k.toObject = ""
	return s[k]
}

// deref is the string behind p, or the default.
func deref[T ~string](p *T, otherwise string) string {
	if p == nil {
		return otherwise
	}
	return string(*p)
}
