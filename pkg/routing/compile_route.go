package routing

// compiledRoute is a Route with its matches prepared and its rules bound to the
// Snapshot's backends.
type compiledRoute struct {
	key         string
	created     int64
	digest      digest
	attachments []Attachment
	matches     [][]compiledMatch // by rule
	rules       []*CompiledRule
}

func (c *compiler) compileRoutes() error {
	old := shelf[compiledRoute]{c.prev.routes, func(r *compiledRoute) string { return r.key }}
	c.next.routes = make([]*compiledRoute, 0, len(c.cfg.Routes))
	before := ""
	for i := range c.cfg.Routes {
		r := &c.cfg.Routes[i]
		if err := checkOrder("Route", before, r.Key); err != nil {
			return err
		}
		before = r.Key
		c.enc.reset()
		c.enc.route(r)
		sum := c.enc.sum()
		was := old.take(r.Key)
		if was != nil && was.digest != sum {
			was = nil
		}
		compiled, err := c.compileRoute(r, was)
		if err != nil {
			return err
		}
		compiled.digest = sum
		c.next.routes = append(c.next.routes, compiled)
	}
	return nil
}

// compileRoute returns was, the same route of the previous Snapshot, if all its
// rules are bound to backends of this one; else a new route that shares what it
// can with it.
func (c *compiler) compileRoute(r *Route, was *compiledRoute) (*compiledRoute, error) {
	if was != nil && c.bound(was.rules) {
		return was, nil
	}
	out := &compiledRoute{key: r.Key, created: r.Created, attachments: r.Listeners}
	if was != nil {
		out.matches = was.matches
	} else if err := out.compileMatches(r); err != nil {
		return nil, err
	}
	out.rules = make([]*CompiledRule, len(r.Rules))
	for i := range r.Rules {
		if was != nil && c.bound(was.rules[i:i+1]) {
			out.rules[i] = was.rules[i]
			continue
		}
		rule, err := c.compileRule(r.Key, i, &r.Rules[i])
		if err != nil {
			return nil, err
		}
		out.rules[i] = rule
	}
	return out, nil
}

func (out *compiledRoute) compileMatches(r *Route) error {
	for _, a := range r.Listeners {
		for _, h := range a.Hostnames {
			if why := checkHostname(h); why != "" || h == "" {
				return refuse(r.Key, "hostname %q %s", h, why)
			}
		}
	}
	out.matches = make([][]compiledMatch, len(r.Rules))
	for i := range r.Rules {
		matches := r.Rules[i].Matches
		if len(matches) == 0 {
			matches = []Match{{}}
		}
		for j := range matches {
			m, err := compileMatch(&matches[j])
			if err != nil {
				return refuse(r.Key, "rules[%d].matches[%d]: %v", i, j, err)
			}
			out.matches[i] = append(out.matches[i], m)
		}
	}
	return nil
}

// bound says whether every backend of rules is the one of the new Snapshot.
func (c *compiler) bound(rules []*CompiledRule) bool {
	for _, r := range rules {
		if !c.boundMirrors(r.Mirrors) {
			return false
		}
		for i := range r.Backends {
			b := &r.Backends[i]
			if b.Backend != nil && c.next.byKey[b.Backend.Key] != b.Backend || !c.boundMirrors(b.Mirrors) {
				return false
			}
		}
	}
	return true
}

func (c *compiler) boundMirrors(mirrors []Mirror) bool {
	for i := range mirrors {
		if b := mirrors[i].Backend; c.next.byKey[b.Key] != b {
			return false
		}
	}
	return true
}

func (c *compiler) compileRule(route string, index int, r *Rule) (*CompiledRule, error) {
	out := &CompiledRule{
		Route: route, Name: r.Name, Index: index, Filters: r.Filters, Fault: r.Fault,
		RequestTimeout: r.RequestTimeout, BackendTimeout: r.BackendTimeout, Retry: r.Retry,
	}
	if r.Fault != 0 && (r.Fault < 400 || r.Fault > 599) {
		return nil, refuse(route, "rules[%d]: a fault of status %d: use an error status", index, r.Fault)
	}
	mirrors, err := c.compileFilters(route, index, r.Filters)
	if err != nil {
		return nil, err
	}
	out.Mirrors = mirrors
	for i := range r.Filters {
		f := &r.Filters[i]
		switch {
		case f.Redirect != nil:
			out.Redirect = f.Redirect
		case f.Rewrite != nil:
			out.Rewrite = f.Rewrite
		case f.CORS != nil:
			out.CORS = f.CORS
		}
	}
	for i := range r.Backends {
		ref := &r.Backends[i]
		if ref.Weight < 0 {
			return nil, refuse(route, "rules[%d].backendRefs[%d]: negative weight", index, i)
		}
		b := c.next.byKey[ref.Backend]
		if ref.Backend != "" && b == nil {
			return nil, refuse(route, "rules[%d].backendRefs[%d]: the Config does not hold %s", index, i, ref.Backend)
		}
		mirrors, err := c.compileFilters(route, index, ref.Filters)
		if err != nil {
			return nil, err
		}
		if ref.Weight == 0 {
			continue
		}
		out.totalWeight += uint64(ref.Weight)
		out.Backends = append(out.Backends, WeightedBackend{
			Backend: b, Filters: ref.Filters, Mirrors: mirrors, upTo: out.totalWeight,
		})
	}
	return out, nil
}

// compileFilters checks the union and resolves the mirrors.
func (c *compiler) compileFilters(route string, rule int, filters []Filter) ([]Mirror, error) {
	var mirrors []Mirror
	for i := range filters {
		f := &filters[i]
		set := 0
		for _, is := range [...]bool{
			f.RequestHeaders != nil, f.ResponseHeaders != nil, f.Redirect != nil,
			f.Rewrite != nil, f.Mirror != nil, f.CORS != nil,
		} {
			if is {
				set++
			}
		}
		if set != 1 {
			return nil, refuse(route, "rules[%d].filters[%d]: %d filters in one, there must be exactly one", rule, i, set)
		}
		switch {
		case f.Redirect != nil:
			if s := f.Redirect.Status; s != 301 && s != 302 && s != 303 && s != 307 && s != 308 {
				return nil, refuse(route, "rules[%d].filters[%d]: %d is no redirect status", rule, i, s)
			}
		case f.Mirror != nil:
			b := c.next.byKey[f.Mirror.Backend]
			if b == nil {
				return nil, refuse(route, "rules[%d].filters[%d]: the Config does not hold the mirror %s", rule, i, f.Mirror.Backend)
			}
			if f.Mirror.Denominator <= 0 || f.Mirror.Numerator < 0 {
				return nil, refuse(route, "rules[%d].filters[%d]: a mirror of %d/%d", rule, i, f.Mirror.Numerator, f.Mirror.Denominator)
			}
			mirrors = append(mirrors, Mirror{b, f.Mirror.Numerator, f.Mirror.Denominator})
		}
	}
	return mirrors, nil
}
