package fastproxy

import (
	"slices"
	"time"

	"flexinfer.ai/gateway/pkg/routing"
)

// awaitReplica holds a request for wanted, a Model or a group, while the Model
// that it came to has no replica; nil: decide again, on the live Snapshot.
func (s *Server) awaitReplica(wanted, cold *routing.CompiledBackend, slot *clientSlot) *failure {
	a := attachmentOf(cold.State)
	begun := time.Now()
	result := a.queue.wait(wanted.Key, slot, s.coldStartTimeout(cold), func() bool {
		return waitIsOver(s.snapshot(), cold.Key, wanted.Key)
	})
	if result == waitFull {
		a.model.rejected.Add(1)
		return &failQueueFull
	}
	a.model.queueWait.Observe(time.Since(begun).Seconds())
	switch result {
	case waitTimedOut:
		return &failColdTimeout
	case waitClientGone:
		return &failClientGone
	}
	return nil
}

// coldStartTimeout is how long a request waits for b: the Model's own time where
// it sets one, else the shorter of the process's two.
func (s *Server) coldStartTimeout(b *routing.CompiledBackend) time.Duration {
	if b.Serverless != nil && b.Serverless.ColdStartTimeout > 0 {
		return b.Serverless.ColdStartTimeout
	}
	return min(s.options.Settings.QueueTimeout, s.options.Settings.ColdStartTimeout)
}

// waitIsOver says whether a request for wanted that waits for the Model cold
// should decide again: the Model has a replica or cannot get one any more, or
// another member of the group is Ready. It is never true where Decide would send the request back to
// the wait: it would go round without end.
func waitIsOver(live *routing.Snapshot, cold, wanted string) bool {
	b := live.Backend(cold)
	if b == nil || b.Serverless == nil || b.Phase == routing.PhaseFailed || hasReplica(b) {
		return true
	}
	if wanted == cold {
		return false
	}
	group := live.Backend(wanted)
	return group == nil || slices.ContainsFunc(group.Members, (*routing.CompiledBackend).MemberReady)
}

// hasReplica says whether b has an endpoint that takes requests.
func hasReplica(b *routing.CompiledBackend) bool { return len(b.Ready)+len(b.Draining) > 0 }

// wakeCold lets the requests go that the Snapshot which has just gone live no
// longer leaves waiting.
func (s *Server) wakeCold(live *routing.Snapshot) {
	for _, b := range live.Backends() {
		if q := &attachmentOf(b.State).queue; q.depth.Load() > 0 {
			q.wake(func(wanted string) bool { return waitIsOver(live, b.Key, wanted) })
		}
	}
}
