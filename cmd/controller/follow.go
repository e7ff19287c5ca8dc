package main

import (
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"flexinfer.ai/gateway/internal/dataplane"
	"flexinfer.ai/gateway/pkg/fastproxy"
	"flexinfer.ai/gateway/pkg/routing"
)

// follower keeps a server at what the files say.
type follower struct {
	roots  []string
	server *fastproxy.Server
	log    *slog.Logger
	report func(f finding, gone bool)

	generation uint64
	served     *routing.Config // as translated, before anything was left out
	unbound    bool            // a port could not be bound the last time
	applied    []finding       // what the server said of served
	reported   []finding
}

// follow reads the files, serves what they mean and reports what is new. It
// returns after what time to try again where a port could not be bound, or a file
// not be read for want of descriptors or memory: then what is served stays.
func (f *follower) follow() time.Duration {
	l := load(f.roots)
	if len(l.short) > 0 && f.served != nil {
		// What else was found comes of the absence of what could not be read.
		f.tell(slices.Concat(f.reported, l.short))
		return readRetry
	}
	changed := f.served == nil || !sameConfig(f.served, l.config)
	if changed || f.unbound {
		f.apply(l, changed)
	}
	f.tell(append(l.findings, f.applied...))
	switch {
	case len(l.short) > 0:
		return readRetry
	case f.unbound:
		return dataplane.BindRetry
	}
	return 0
}

// readRetry is after what time files are read again that could not be for want of
// descriptors or memory: no change of theirs tells when there is enough.
const readRetry = 2 * time.Second

// apply serves what was loaded. Where that is not changed, a port is tried again, and
// only its success is worth a line.
func (f *follower) apply(l loaded, changed bool) {
	f.generation++
	cfg := *l.config
	cfg.Generation = f.generation
	left, err := dataplane.Apply(f.server, &cfg)
	f.served, f.applied, f.unbound = l.config, nil, false
	for _, r := range left {
		f.applied = append(f.applied, l.findingAt(r.Key, "is left out: "+r.Reason))
	}
	var refused *routing.CompileError
	switch {
	case errors.As(err, &refused):
		f.applied = append(f.applied, l.findingAt(refused.Key, "nothing was changed: "+refused.Reason))
		return
	case err != nil:
		f.unbound = true
		f.applied = append(f.applied, finding{Message: err.Error()})
	}
	if f.unbound && !changed {
		return
	}
	f.log.Info("configuration served", "generation", cfg.Generation, "listeners", len(cfg.Listeners),
		"routes", len(cfg.Routes), "backends", len(cfg.Backends), "endpointLists", len(cfg.EndpointLists))
}

// sameConfig compares two Configs but for their Generation.
func sameConfig(a, b *routing.Config) bool {
	x, y := *a, *b
	x.Generation, y.Generation = 0, 0
	return reflect.DeepEqual(x, y)
}

// tell reports the findings that were not there the last time, and those gone.
func (f *follower) tell(found []finding) {
	before := make(map[finding]bool, len(f.reported))
	for _, x := range f.reported {
		before[x] = true
	}
	var now []finding
	current := make(map[finding]bool, len(found))
	for _, x := range found {
		if current[x] {
			continue // two sources may find the same
		}
		current[x] = true
		now = append(now, x)
		if !before[x] {
			f.report(x, false)
		}
	}
	for _, x := range f.reported {
		if !current[x] {
			f.report(x, true)
		}
	}
	f.reported = now
}
