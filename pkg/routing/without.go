package routing

import "slices"

// Without returns c less the resource of that key, for a caller whose Compile
// failed on it and who serves the rest. What referred to it is left as the
// Gateway API wants it: a listener without its certificate goes, a route is no
// longer attached to a listener that went, a backendRef stays and answers its
// share with 500, a backend whose endpoints went has none.
//
// c is not changed; the result shares memory with it. ok is false where c holds
// no such resource.
func (c *Config) Without(key string) (rest *Config, ok bool) {
	n := *c
	count := n.size()
	n.Listeners = drop(c.Listeners, func(l *Listener) bool { return l.Key == key })
	n.Routes = drop(c.Routes, func(r *Route) bool { return r.Key == key })
	n.Backends = drop(c.Backends, func(b *Backend) bool { return b.Key == key })
	n.Certificates = drop(c.Certificates, func(t *Certificate) bool { return t.Key == key })
	if n.size() == count {
		return n.withoutEndpoints(key)
	}
	n.dropCertificate(key)
	n.settleMembers(key)
	n.settleRoutes()
	return &n, true
}

func (c *Config) size() int {
	return len(c.Listeners) + len(c.Routes) + len(c.Backends) + len(c.Certificates)
}

// withoutEndpoints empties an endpoint list.
func (c *Config) withoutEndpoints(key string) (*Config, bool) {
	i := slices.IndexFunc(c.EndpointLists, func(l EndpointList) bool { return l.Key == key })
	if i < 0 {
		return c, false
	}
	c.EndpointLists = slices.Clone(c.EndpointLists)
	c.EndpointLists[i].Endpoints = nil
	return c, true
}

func drop[T any](all []T, gone func(*T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(t T) bool { return gone(&t) })
}

// dropCertificate takes a certificate from the listeners; one left with none
// cannot serve.
func (c *Config) dropCertificate(key string) {
	kept := c.Listeners[:0]
	for _, l := range c.Listeners {
		if slices.Contains(l.Certificates, key) {
			l.Certificates = drop(l.Certificates, func(k *string) bool { return *k == key })
			if len(l.Certificates) == 0 {
				continue
			}
		}
		kept = append(kept, l)
	}
	c.Listeners = kept
}

func (c *Config) settleMembers(key string) {
	for i := range c.Backends {
		if slices.Contains(c.Backends[i].Members, key) {
			c.Backends[i].Members = drop(c.Backends[i].Members, func(k *string) bool { return *k == key })
		}
	}
}

// settleRoutes takes from the routes what no longer exists.
func (c *Config) settleRoutes() {
	listeners, backends := map[string]bool{}, map[string]bool{"": true}
	for i := range c.Listeners {
		listeners[c.Listeners[i].Key] = true
	}
	for i := range c.Backends {
		backends[c.Backends[i].Key] = true
	}
	for i := range c.Routes {
		r := &c.Routes[i]
		r.Listeners = drop(r.Listeners, func(a *Attachment) bool { return !listeners[a.Listener] })
		r.Rules = slices.Clone(r.Rules)
		for j := range r.Rules {
			r.Rules[j].settle(backends)
		}
	}
}

func (r *Rule) settle(backends map[string]bool) {
	gone := func(f *Filter) bool { return f.Mirror != nil && !backends[f.Mirror.Backend] }
	r.Filters = drop(r.Filters, gone)
	r.Backends = slices.Clone(r.Backends)
	for i := range r.Backends {
		b := &r.Backends[i]
		b.Filters = drop(b.Filters, gone)
		if !backends[b.Backend] {
			b.Backend = ""
		}
	}
}
