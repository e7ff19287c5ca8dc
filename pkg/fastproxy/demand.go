package fastproxy

import (
	"strings"
	"sync"
	"time"
	"weak"

	"flexinfer.ai/gateway/pkg/routing"
)

// Demand is what the data plane sees of the work for one Model.
//
// Work is a request whose method is one of the Model's wakeMethods (POST by
// default), a mirrored one included, and an open tunnel. Everything else is a
// poll: GET, HEAD, OPTIONS, a request to upgrade. Polls are in no count.
type Demand struct {
	// Model is the Model as "namespace/name".
	Model string
	// Waiting requests are in the cold-start queue. Those for a label group are
	// in the queue of the member that is to be started for them.
	Waiting int
	// Running exchanges have an endpoint work on them, from the request's first
	// byte to it up to the answer's last.
	Running int
	// LastActive is when a request of work last began, ended or gave up waiting,
	// up to a tenth of a second early, in this process; zero: never. It is now
	// while a request waits or runs.
	LastActive time.Time
}

// demandIdle is how long a Model must have had no work for its next one to be
// told at once.
const demandIdle = int64(time.Second)

// Demand tells the demand for every serverless Model of the live Snapshot that
// there is something to tell of, in the order of their Keys, and for Models that
// are not in it any more while exchanges of them run. It is a level, to be read
// again and again, not an account of events: no request is ever missed by
// reading it late, except one that came and went in between, and that one shows
// in LastActive.
//
// Cost: O(backends), about 10 ns each.
func (s *Server) Demand() []Demand {
	now := time.Now()
	var out []Demand
	if live := s.snapshot(); live != nil {
		for _, b := range live.Backends() {
			if b.Kind != routing.BackendModel || b.Serverless == nil {
				continue
			}
			d := demandFor(b.State, now)
			d.Waiting = int(attachmentOf(b.State).queue.depth.Load())
			if d.Waiting > 0 {
				d.LastActive = now
			}
			if !d.LastActive.IsZero() {
				out = append(out, d)
			}
		}
	}
	return s.departed.appendTo(out, now)
}

// demandFor is what the counters of a Model tell.
func demandFor(b *routing.BackendState, now time.Time) Demand {
	d := Demand{Model: b.Namespace + "/" + b.Name, Running: int(b.Working())}
	if last := b.LastWork(); last != 0 {
		d.LastActive = wallTime(last)
	}
	if d.Running > 0 || d.LastActive.After(now) {
		d.LastActive = now
	}
	return d
}

// endsIdleness says whether work that begins now ends an idle time of b that
// somebody wants to know the end of.
func (s *Server) endsIdleness(b *routing.CompiledBackend, now int64) bool {
	return s.options.DemandChanged != nil && b.Serverless != nil &&
		now-b.State.LastWork() >= demandIdle && b.State.Working() == 0
}

// departed are the Models that the live Snapshot does not hold any more, for as
// long as an exchange holds them. An exchange may still be on its way to its
// endpoint when its Model goes, so that its count is no sign of what will run:
// whoever can still be counted is reachable, and whoever is not is collected.
type departed struct {
	mu     sync.Mutex
	models []weak.Pointer[routing.BackendState]
}

func (d *departed) add(b *routing.BackendState) {
	if !strings.HasPrefix(b.Key, string(routing.BackendModel)+"/") {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.models = append(d.models, weak.Make(b))
}

// appendTo adds what runs with departed Models to the demand told so far.
func (d *departed) appendTo(out []Demand, now time.Time) []Demand {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := d.models[:0]
	for _, p := range d.models {
		b := p.Value()
		if b == nil {
			continue
		}
		kept = append(kept, p)
		if gone := demandFor(b, now); gone.Running > 0 {
			out = merge(out, gone)
		}
	}
	clear(d.models[len(kept):])
	d.models = kept
	return out
}

// merge adds a departed Model's demand; the Model may have come back meanwhile.
func merge(out []Demand, gone Demand) []Demand {
	for i := range out {
		if out[i].Model == gone.Model {
			out[i].Running += gone.Running
			out[i].LastActive = gone.LastActive
			return out
		}
	}
	return append(out, gone)
}
