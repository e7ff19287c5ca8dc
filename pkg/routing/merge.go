package routing

import (
	"cmp"
	"slices"
	"strings"
)

// Merge returns one Config that serves what all of cfgs serve: the union of
// their resources by Key. A route that several of them hold is attached to all
// its listeners; of any other resource that is held twice the first one stays,
// as they are translations of the same object.
//
// The result shares memory with cfgs and is sorted as Compile wants it. Two
// listeners that claim one port's hostname are not settled here: that is for
// whoever knows which of them is older.
func Merge(cfgs ...*Config) *Config {
	m := &Config{}
	for _, c := range cfgs {
		m.Generation = max(m.Generation, c.Generation)
		m.Listeners = append(m.Listeners, c.Listeners...)
		m.Routes = append(m.Routes, c.Routes...)
		m.Backends = append(m.Backends, c.Backends...)
		m.EndpointLists = append(m.EndpointLists, c.EndpointLists...)
		m.Certificates = append(m.Certificates, c.Certificates...)
	}
	m.Listeners = union(m.Listeners, func(l *Listener) string { return l.Key }, nil)
	m.Routes = union(m.Routes, func(r *Route) string { return r.Key }, attachToo)
	m.Backends = union(m.Backends, func(b *Backend) string { return b.Key }, nil)
	m.EndpointLists = union(m.EndpointLists, func(l *EndpointList) string { return l.Key }, nil)
	m.Certificates = union(m.Certificates, func(c *Certificate) string { return c.Key }, nil)
	return m
}

// union sorts resources by key and leaves one of each; fold, if any, puts what
// only the dropped one has into the one that stays.
func union[T any](all []T, key func(*T) string, fold func(stays, dropped *T)) []T {
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(key(&a), key(&b)) })
	kept := all[:0]
	for i := range all {
		if n := len(kept); n > 0 && key(&kept[n-1]) == key(&all[i]) {
			if fold != nil {
				fold(&kept[n-1], &all[i])
			}
			continue
		}
		kept = append(kept, all[i])
	}
	clear(all[len(kept):])
	return kept
}

// attachToo attaches a route to the listeners of its twin as well.
func attachToo(stays, dropped *Route) {
	stays.Listeners = slices.Clone(stays.Listeners) // the original belongs to its Config
	for _, a := range dropped.Listeners {
		if !slices.ContainsFunc(stays.Listeners, func(b Attachment) bool { return b.Listener == a.Listener }) {
			stays.Listeners = append(stays.Listeners, a)
		}
	}
	slices.SortStableFunc(stays.Listeners, func(a, b Attachment) int { return strings.Compare(a.Listener, b.Listener) })
}
