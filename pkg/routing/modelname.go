package routing

// bindModels sets NeedsModel and the aliases that ResolveModel looks up.
func (l *CompiledListener) bindModels(routes []attachedRoute) {
	var onModelName []*valueCondition
	for _, a := range routes {
		for _, matches := range a.route.matches {
			for i := range matches {
				for j := range matches[i].headers {
					if c := &matches[i].headers[j]; c.kind == onModel {
						onModelName = append(onModelName, c)
					}
				}
			}
		}
	}
	l.NeedsModel = len(onModelName) > 0
	if !l.NeedsModel {
		return
	}
	aliases := modelAliases(reachableModels(routes))
	exact := make(map[string]bool, len(onModelName))
	for _, c := range onModelName {
		if c.regex == nil {
			exact[c.value] = true
		}
	}
	for alias := range aliases {
		matched := exact[alias]
		for _, c := range onModelName {
			matched = matched || c.regex != nil && c.regex.MatchString(alias)
		}
		if matched {
			delete(aliases, alias)
		}
	}
	l.aliases = aliases
}

// reachableModels are the Models that the routes' rules name, by themselves or
// as members of a group.
func reachableModels(routes []attachedRoute) map[*CompiledBackend]bool {
	models := map[*CompiledBackend]bool{}
	for _, a := range routes {
		for _, r := range a.route.rules {
			for i := range r.Backends {
				b := r.Backends[i].Backend
				if b == nil {
					continue
				}
				if b.Kind == BackendModel {
					models[b] = true
				}
				for _, m := range b.Members {
					models[m] = true
				}
			}
		}
	}
	return models
}

// modelAliases maps every alias and served name that belongs to exactly one of
// models, and is no Model's own name, to that Model's name.
func modelAliases(models map[*CompiledBackend]bool) map[string][]byte {
	owner := map[string]*CompiledBackend{}
	claim := func(name string, m *CompiledBackend) {
		if was, taken := owner[name]; taken && was != m {
			m = nil // two Models: nobody's
		}
		owner[name] = m
	}
	for m := range models {
		if m.ServedModelName != "" {
			claim(m.ServedModelName, m)
		}
		for _, a := range m.Aliases {
			claim(a, m)
		}
	}
	for m := range models {
		delete(owner, m.Name)
	}
	out := map[string][]byte{}
	for name, m := range owner {
		if m != nil {
			out[name] = []byte(m.Name)
		}
	}
	return out
}
