package translate

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// assignAliases gives each alias to one Model of its namespace: a Model's own
// name is never another's alias, and of several Models that claim an alias the
// first by name has it. The others lose it and are told.
func (t *translation) assignAliases() {
	owners := map[types.NamespacedName]types.NamespacedName{}
	for _, obj := range t.in.models {
		m := t.models[nameOf(obj)]
		for i, alias := range obj.Spec.Aliases {
			name := types.NamespacedName{Namespace: m.name.Namespace, Name: string(alias)}
			owner, taken := owners[name]
			if other := t.models[name]; other != nil && other != m {
				owner, taken = other.name, true
			}
			if taken && owner != m.name {
				m.names = append(m.names, finding{
					field:   fmt.Sprintf("spec.aliases[%d]", i),
					message: fmt.Sprintf("%q already belongs to Model %s and is left out: remove it from one of them", alias, owner),
				})
				continue
			}
			if !taken {
				owners[name] = m.name
				m.backend.Aliases = append(m.backend.Aliases, string(alias))
			}
		}
		slices.Sort(m.backend.Aliases)
	}
}
