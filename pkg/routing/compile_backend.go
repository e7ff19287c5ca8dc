package routing

import (
	"net"
	"slices"
)

func (c *compiler) compileBackends() error {
	lists := make(map[string]*compiledEndpoints, len(c.next.endpoints))
	for _, l := range c.next.endpoints {
		lists[l.key] = l
	}
	old := shelf[CompiledBackend]{c.prev.backends, func(b *CompiledBackend) string { return b.Key }}
	c.next.byKey = make(map[string]*CompiledBackend, len(c.cfg.Backends))
	c.sameModels = len(c.cfg.Backends) == len(c.prev.backends)
	before := ""
	for i := range c.cfg.Backends {
		b := &c.cfg.Backends[i]
		if err := checkOrder("Backend", before, b.Key); err != nil {
			return err
		}
		before = b.Key
		c.enc.reset()
		c.enc.backend(b)
		sum := c.enc.sum()
		was := old.take(b.Key)
		c.sameModels = c.sameModels && was != nil && was.digest == sum
		endpoints := lists[b.Endpoints]
		if b.Endpoints != "" && endpoints == nil {
			return refuse(b.Key, "it names the endpoint list %s, which the Config does not hold", b.Endpoints)
		}
		compiled := was
		if was == nil || was.digest != sum || was.endpoints != endpoints {
			if err := checkBackend(b); err != nil {
				return err
			}
			compiled = c.compileBackend(b, endpoints, was)
			compiled.digest = sum
		}
		c.next.backends = append(c.next.backends, compiled)
		c.next.byKey[b.Key] = compiled
	}
	return c.compileGroups()
}

func checkBackend(b *Backend) error {
	switch b.Kind {
	case BackendModel, BackendService:
		if len(b.Members) > 0 {
			return refuse(b.Key, "a %s has no members", b.Kind)
		}
	case BackendGroup:
		if len(b.Members) == 0 {
			return refuse(b.Key, "a group needs at least one member")
		}
	default:
		return refuse(b.Key, "unknown backend kind %q", b.Kind)
	}
	switch b.Strategy {
	case "", StrategyDefault, StrategySession, StrategyPrefix, StrategyLeastLoaded:
	default:
		return refuse(b.Key, "unknown strategy %q", b.Strategy)
	}
	if b.Service != "" {
		if _, _, err := net.SplitHostPort(b.Service); err != nil {
			return refuse(b.Key, "its Service %q is not host:port", b.Service)
		}
	}
	return nil
}

// compileBackend makes everything but a group's members. was is the backend of
// the previous Snapshot, nil without one.
func (c *compiler) compileBackend(b *Backend, endpoints *compiledEndpoints, was *CompiledBackend) *CompiledBackend {
	out := &CompiledBackend{
		Key: b.Key, Kind: b.Kind, Namespace: b.Namespace, Name: b.Name,
		Identity: b.Namespace + "/" + b.Name, Strategy: b.Strategy, Priority: b.Priority,
		ServedModelName: b.ServedModelName, Aliases: b.Aliases, DecodeRequests: b.DecodeRequests,
		Phase: b.Phase, Serverless: b.Serverless,
		State: c.registry.backend(b, c.options.CardinalityLimit), endpoints: endpoints,
	}
	if out.Strategy == "" {
		out.Strategy = StrategyDefault
	}
	if b.Service != "" {
		out.Service = c.registry.target(targetID{address: b.Service, service: true})
	}
	if endpoints != nil {
		out.Ready, out.Draining, out.NotReady = endpoints.ready, endpoints.draining, endpoints.notReady
	}
	if out.Strategy == StrategySession || out.Strategy == StrategyPrefix {
		targets := out.Usable()
		ids := make([]string, len(targets))
		for i, t := range targets {
			ids[i] = t.Address
		}
		var old *Ring
		if was != nil {
			old = was.ring
		}
		out.ring = c.ringOver(ids, old)
	}
	return out
}

// Usable are the targets that picks choose from: the draining ones only while
// none is ready, and never those of a serverless Model, which starts another one
// for its requests rather than lose them with the end of the last.
func (b *CompiledBackend) Usable() []*Target {
	if len(b.Ready) > 0 || b.Serverless != nil {
		return b.Ready
	}
	return b.Draining
}

// ringOver is the ring over ids (sorted, each once): old if it is that ring.
func (c *compiler) ringOver(ids []string, old *Ring) *Ring {
	if old != nil && slices.Equal(old.ids, ids) {
		return old
	}
	members := make([]RingMember, len(ids))
	for i, id := range ids {
		members[i].ID = id
	}
	return NewRing(members, c.options.VirtualNodes)
}

// compileGroups gives groups their members, which are all compiled by now.
func (c *compiler) compileGroups() error {
	for i := range c.cfg.Backends {
		b := &c.cfg.Backends[i]
		if b.Kind != BackendGroup {
			continue
		}
		members := make([]*CompiledBackend, len(b.Members))
		ids := make([]string, len(b.Members))
		for j, key := range b.Members {
			m := c.next.byKey[key]
			if m == nil || m.Kind != BackendModel {
				return refuse(b.Key, "its member %s is no Model of the Config", key)
			}
			if j > 0 && ids[j-1] >= m.Identity {
				return refuse(b.Key, "its members are not sorted by name, each once")
			}
			members[j], ids[j] = m, m.Identity
		}
		group := c.next.backends[i]
		if slices.Equal(group.Members, members) {
			continue
		}
		fresh := *group
		fresh.Members = members
		fresh.memberRing = c.ringOver(ids, group.memberRing)
		c.next.backends[i] = &fresh
		c.next.byKey[b.Key] = &fresh
	}
	return nil
}
