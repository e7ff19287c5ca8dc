package routing

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// compiledEndpoints is an EndpointList with its Targets.
type compiledEndpoints struct {
	key    string
	digest digest
	// targets are all that may take requests; ready and draining are its parts,
	// each sorted by address.
	targets, ready, draining []*Target
	notReady                 int
}

func (c *compiler) compileEndpoints() error {
	old := shelf[compiledEndpoints]{c.prev.endpoints, func(l *compiledEndpoints) string { return l.key }}
	before := ""
	for i := range c.cfg.EndpointLists {
		l := &c.cfg.EndpointLists[i]
		if err := checkOrder("EndpointList", before, l.Key); err != nil {
			return err
		}
		before = l.Key
		c.enc.reset()
		c.enc.endpoints(l)
		sum := c.enc.sum()
		if was := old.take(l.Key); was != nil && was.digest == sum {
			c.next.endpoints = append(c.next.endpoints, was)
			continue
		}
		compiled, err := c.compileEndpointList(l)
		if err != nil {
			return err
		}
		compiled.digest = sum
		c.next.endpoints = append(c.next.endpoints, compiled)
	}
	return nil
}

func (c *compiler) compileEndpointList(l *EndpointList) (*compiledEndpoints, error) {
	out := &compiledEndpoints{key: l.Key}
	for _, e := range sortedEndpoints(l.Endpoints) {
		if _, err := netip.ParseAddrPort(e.Address); err != nil {
			return nil, refuse(l.Key, "endpoint %q is not ip:port: %v", e.Address, err)
		}
		switch e.State {
		case EndpointReady, EndpointDraining:
		case EndpointNotReady:
			out.notReady++
			continue
		default:
			return nil, refuse(l.Key, "endpoint %s has the unknown state %q", e.Address, e.State)
		}
		t := c.registry.target(targetID{address: e.Address, uid: e.UID})
		out.targets = append(out.targets, t)
		if e.State == EndpointReady {
			out.ready = append(out.ready, t)
		} else {
			out.draining = append(out.draining, t)
		}
	}
	return out, nil
}

// sortedEndpoints is list sorted by address with each address once: a pod that
// took over the address of one that is leaving hides it.
func sortedEndpoints(list []Endpoint) []Endpoint {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Endpoint) int {
		return cmp.Or(strings.Compare(a.Address, b.Address), cmp.Compare(stateOrder(a.State), stateOrder(b.State)))
	})
	return slices.CompactFunc(list, func(a, b Endpoint) bool { return a.Address == b.Address })
}

func stateOrder(s EndpointState) int {
	switch s {
	case EndpointReady:
		return 0
	case EndpointDraining:
		return 1
	default:
		return 2
	}
}
