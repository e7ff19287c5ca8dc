package routing

import "slices"

// matchTree is the compiled matching of one listener. It holds no rule, only
// slots, so that listeners of later Snapshots share it while their rules'
// backends change.
type matchTree struct {
	hosts hostTable[pathTable]
	slots []matchSlot
}

// matchSlot says which rule an entrant stands for.
type matchSlot struct {
	route, rule int // positions among the listener's routes, in the route
	prefix      string
}

// attachedRoute is a route on one listener.
type attachedRoute struct {
	route     *compiledRoute
	hostnames []string // empty: every host of the listener
}

// newMatchTree compiles the routes of a listener.
func newMatchTree(routes []attachedRoute) *matchTree {
	t := &matchTree{}
	byHost := map[string][]entrant{}
	for ri, a := range routes {
		hostnames := a.hostnames
		if len(hostnames) == 0 {
			hostnames = []string{""}
		}
		for rule := range a.route.matches {
			for order := range a.route.matches[rule] {
				m := &a.route.matches[rule][order]
				slot := matchSlot{route: ri, rule: rule}
				if m.pathType == PathPrefix {
					slot.prefix = m.path
				}
				t.slots = append(t.slots, slot)
				for _, h := range hostnames {
					byHost[h] = append(byHost[h], entrant{
						match: m, route: a.route, rule: rule, order: order,
						slot: int32(len(t.slots) - 1),
					})
				}
			}
		}
	}
	tables := make(map[string]pathTable, len(byHost))
	for h, entrants := range byHost {
		slices.SortFunc(entrants, compareEntrants)
		tables[h] = newPathTable(newCandidates(entrants))
	}
	t.hosts = newHostTable(tables)
	return t
}

// Match returns the rule that r goes to; nil: no route (404). Hostnames come
// first, from the most specific, and one without a matching rule falls through
// to the next; then the precedence of the Gateway API.
// Cost: independent of the number of routes, hostnames and rules; no
// allocation, except that an expression compared with an escaped query value
// decodes it.
func (l *CompiledListener) Match(r *Request) *MatchedRule {
	w := l.tree.hosts.walk(r.Host)
	for t := w.next(); t != nil; t = w.next() {
		if c := t.match(r); c != nil {
			return &l.matched[c.slot]
		}
	}
	return nil
}

// MatchPreflight returns the rule whose CORS filter answers a preflight that
// announces method (OPTIONS with Origin and Access-Control-Request-Method); nil:
// none does. Conditions on X-Gateway-Model-Name and on fields that a preflight
// cannot carry are left out.
func (l *CompiledListener) MatchPreflight(r *Request, announcedMethod []byte) *MatchedRule {
	w := l.tree.hosts.walk(r.Host)
	for t := w.next(); t != nil; t = w.next() {
		if c := t.matchPreflight(r, announcedMethod); c != nil {
			return &l.matched[c.slot]
		}
	}
	return nil
}

// ResolveModel gives the Model's name where model is an alias or the served
// name of exactly one Model that the listener's rules reach, unless a rule
// matches that very value or it is a reachable Model's own name. Every other
// value comes back unchanged. The result is only read.
func (l *CompiledListener) ResolveModel(model []byte) []byte {
	if name, ok := l.aliases[string(model)]; ok {
		return name
	}
	return model
}
