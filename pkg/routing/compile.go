package routing

import (
	"encoding/hex"
	"fmt"
)

// CompileError names the resource that cannot be served and why. The reason
// never holds key material.
type CompileError struct {
	Key    string
	Reason string
}

func (e *CompileError) Error() string { return fmt.Sprintf("cannot serve %s: %s", e.Key, e.Reason) }

func refuse(key, format string, args ...any) error {
	return &CompileError{Key: key, Reason: fmt.Sprintf(format, args...)}
}

// Compile turns cfg into a Snapshot, as a whole or not at all; an error is a
// *CompileError. What cfg shares with prev (nil: nothing) is shared by identity:
// parsed certificates, rings, match trees, rules, whole listeners. Targets and
// BackendStates come from reg.
//
// Nobody may change cfg or o afterwards. Compile and Registry.Sweep are called
// by one goroutine; the request path is not disturbed. A failed Compile leaves
// new entities in reg until the next Sweep.
// Cost: O(cfg) to find what changed, about 1 ms for 2,000 routes and 5,000
// endpoints, plus the work for what did.
func Compile(cfg *Config, o *Options, prev *Snapshot, reg *Registry) (*Snapshot, error) {
	if prev == nil || prev.registry != reg || prev.virtualNodes != o.VirtualNodes {
		prev = &Snapshot{}
	}
	c := &compiler{
		cfg: cfg, options: o, prev: prev, registry: reg,
		next: &Snapshot{generation: cfg.Generation, virtualNodes: o.VirtualNodes, registry: reg},
	}
	steps := []func() error{c.compileCertificates, c.compileEndpoints, c.compileBackends, c.compileRoutes, c.compileListeners}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	c.setVersion()
	return c.next, nil
}

type compiler struct {
	cfg      *Config
	options  *Options
	prev     *Snapshot
	registry *Registry
	next     *Snapshot
	enc      encoder
	// sameModels: the backends are those of prev but for their endpoints, so
	// that every model name means what it meant.
	sameModels bool
}

// shelf finds previous parts by key, in one pass over two sorted lists.
type shelf[T any] struct {
	parts []*T
	key   func(*T) string
}

func (s *shelf[T]) take(key string) *T {
	for len(s.parts) > 0 && s.key(s.parts[0]) < key {
		s.parts = s.parts[1:]
	}
	if len(s.parts) > 0 && s.key(s.parts[0]) == key {
		return s.parts[0]
	}
	return nil
}

// checkOrder holds the Config's promise: sorted by Key, each Key once.
func checkOrder(what, before, key string) error {
	switch {
	case key == "":
		return refuse(what, "a resource without a key")
	case before == key:
		return refuse(key, "the Config holds it twice")
	case before > key:
		return refuse(key, "the Config holds it after %s: resources must be sorted by key", before)
	}
	return nil
}

// setVersion hashes the digests of all resources, section by section.
func (c *compiler) setVersion() {
	e, s := &c.enc, c.next
	e.reset()
	e.int(int64(len(s.listeners)))
	for i := range c.cfg.Listeners {
		e.listener(&c.cfg.Listeners[i])
	}
	e.int(int64(len(s.routes)))
	for _, r := range s.routes {
		e.digest(r.digest)
	}
	e.int(int64(len(s.backends)))
	for _, b := range s.backends {
		e.digest(b.digest)
	}
	e.int(int64(len(s.endpoints)))
	for _, l := range s.endpoints {
		e.digest(l.digest)
	}
	e.int(int64(len(s.certificates)))
	for _, cert := range s.certificates {
		e.digest(cert.digest)
	}
	sum := e.sum()
	s.version = hex.EncodeToString(sum[:16])
}
