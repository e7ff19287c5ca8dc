package routing

import (
	"cmp"
	"slices"
)

func (c *compiler) compileListeners() error {
	attached, err := c.attach()
	if err != nil {
		return err
	}
	certificates := make(map[string]*compiledCertificate, len(c.next.certificates))
	for _, cert := range c.next.certificates {
		certificates[cert.key] = cert
	}
	old := shelf[CompiledListener]{c.prev.listeners, func(l *CompiledListener) string { return l.Key }}
	before := ""
	for i := range c.cfg.Listeners {
		l := &c.cfg.Listeners[i]
		if err := checkOrder("Listener", before, l.Key); err != nil {
			return err
		}
		before = l.Key
		compiled, err := c.compileListener(l, attached[l.Key], certificates, old.take(l.Key))
		if err != nil {
			return err
		}
		c.next.listeners = append(c.next.listeners, compiled)
	}
	return c.compileSockets()
}

// attach collects the routes of each listener.
func (c *compiler) attach() (map[string][]attachedRoute, error) {
	attached := make(map[string][]attachedRoute, len(c.cfg.Listeners))
	for i := range c.cfg.Listeners {
		attached[c.cfg.Listeners[i].Key] = nil
	}
	for _, r := range c.next.routes {
		for i := range r.attachments {
			a := &r.attachments[i]
			list, known := attached[a.Listener]
			if !known {
				return nil, refuse(r.key, "it is attached to the listener %s, which the Config does not hold", a.Listener)
			}
			attached[a.Listener] = append(list, attachedRoute{r, a.Hostnames})
		}
	}
	return attached, nil
}

// compileListener returns was, the listener of the previous Snapshot, where
// nothing of it changed; where only backends did, a new one with its match tree.
func (c *compiler) compileListener(l *Listener, routes []attachedRoute, certificates map[string]*compiledCertificate, was *CompiledListener) (*CompiledListener, error) {
	e := &c.enc
	e.reset()
	e.listener(l)
	out := &CompiledListener{
		Key: l.Key, Gateway: l.Gateway, Hostname: l.Hostname, Port: l.Port,
		TLS: l.Protocol == ProtocolHTTPS,
	}
	if err := checkListener(l); err != nil {
		return nil, err
	}
	for _, key := range l.Certificates {
		cert := certificates[key]
		if cert == nil {
			return nil, refuse(l.Key, "it names the certificate %s, which the Config does not hold", key)
		}
		e.digest(cert.digest)
		out.Certificates = append(out.Certificates, cert.pair)
	}
	for _, a := range routes {
		e.digest(a.route.digest)
	}
	out.digest = e.sum()
	sameContent := was != nil && was.digest == out.digest
	switch {
	case !sameContent:
		out.tree = newMatchTree(routes)
	case was.servesRulesOf(routes):
		return was, nil
	default:
		out.tree = was.tree
	}
	out.matched = make([]MatchedRule, len(out.tree.slots))
	for i, s := range out.tree.slots {
		out.matched[i] = MatchedRule{Rule: routes[s.route].route.rules[s.rule], Prefix: s.prefix}
	}
	if sameContent && c.sameModels {
		out.NeedsModel, out.aliases = was.NeedsModel, was.aliases
	} else {
		out.bindModels(routes)
	}
	return out, nil
}

func checkListener(l *Listener) error {
	switch l.Protocol {
	case ProtocolHTTP:
		if len(l.Certificates) > 0 {
			return refuse(l.Key, "an HTTP listener has no certificates")
		}
	case ProtocolHTTPS:
		if len(l.Certificates) == 0 {
			return refuse(l.Key, "an HTTPS listener needs a certificate")
		}
	default:
		return refuse(l.Key, "unknown protocol %q: use %s or %s", l.Protocol, ProtocolHTTP, ProtocolHTTPS)
	}
	if l.Port == 0 {
		return refuse(l.Key, "port 0")
	}
	if why := checkHostname(l.Hostname); why != "" {
		return refuse(l.Key, "hostname %q %s", l.Hostname, why)
	}
	return nil
}

// servesRulesOf says whether every slot of l stands for the rule that routes,
// which have the content l was compiled from, have in its place.
func (l *CompiledListener) servesRulesOf(routes []attachedRoute) bool {
	for i, s := range l.tree.slots {
		if l.matched[i].Rule != routes[s.route].route.rules[s.rule] {
			return false
		}
	}
	return true
}

// compileSockets groups the listeners by port.
func (c *compiler) compileSockets() error {
	s := c.next
	s.byPort = map[uint16]*Socket{}
	hostnames := map[uint16]map[string]*CompiledListener{}
	for _, l := range s.listeners {
		k := s.byPort[l.Port]
		if k == nil {
			k = &Socket{Port: l.Port, TLS: l.TLS}
			s.byPort[l.Port] = k
			s.sockets = append(s.sockets, k)
			hostnames[l.Port] = map[string]*CompiledListener{}
		}
		if k.TLS != l.TLS {
			return refuse(l.Key, "port %d is used with HTTP and HTTPS: listener %s came first", l.Port, k.Listeners[0].Key)
		}
		if taken := hostnames[l.Port][l.Hostname]; taken != nil {
			return refuse(l.Key, "port %d and hostname %q belong to listener %s already", l.Port, l.Hostname, taken.Key)
		}
		hostnames[l.Port][l.Hostname] = l
		k.Listeners = append(k.Listeners, l)
	}
	for _, k := range s.sockets {
		k.hosts = newHostTable(hostnames[k.Port])
	}
	slices.SortFunc(s.sockets, func(a, b *Socket) int { return cmp.Compare(a.Port, b.Port) })
	return nil
}
