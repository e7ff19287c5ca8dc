package fastproxy

import (
	"context"
	"slices"
	"time"

	"flexinfer.ai/gateway/pkg/routing"
)

// A wait ends with a replica, with the Model's failure, with its time, or with
// its client. The end of the process is none of these: while a server drains it
// goes on taking configurations, so that those who wait are served like those who
// already are. Only where the time for that runs out are they told to come again,
// instead of being cut: their retry, at another gateway pod, is demand as theirs
// was here.

// lastWords is how long before the end of a drain those who wait are told.
const lastWords = time.Second

// awaitReplica holds a request for wanted, a Model or a group, while the Model
// that it came to has no replica; nil: decide again, on the live Snapshot.
func (s *Server) awaitReplica(wanted, cold *routing.CompiledBackend, slot *clientSlot) *failure {
	if s.dismissing.Load() {
		return &failNoEndpoint
	}
	a := attachmentOf(cold.State)
	begun := time.Now()
	result := a.queue.wait(wanted.Key, slot, s.coldStartTimeout(cold), func() bool {
		return s.dismissing.Load() || waitIsOver(s.snapshot(), cold.Key, wanted.Key)
	})
	if result == waitFull {
		a.model.rejected.Add(1)
		return &failQueueFull
	}
	now := time.Now()
	cold.State.NoteWork(unixNow())
	a.model.queueWait.Observe(now.Sub(begun).Seconds())
	switch result {
	case waitTimedOut:
		return &failColdTimeout
	case waitClientGone:
		return &failClientGone
	}
	return nil
}

// A Model's last replicas may go while a request is on its way to them: the
// connection fails, and that they have gone, or end, is known a moment later. Then
// the request starts the Model anew.
const (
	firstPause = 100 * time.Millisecond // between two looks for that news, doubled each time
	pauses     = 3
)

// awaitNews takes up the live Snapshot where it has more to offer to a request
// that no endpoint can be connected for, on a serverless Model once it has.
func (x *exchange) awaitNews() bool {
	for n := range pauses + 1 {
		if x.takeUpLive() {
			return true
		}
		pause := firstPause << n
		if x.decision.Backend.Serverless == nil || n == pauses || x.endsWithin(pause) || !x.slot.sleep(pause) {
			break
		}
	}
	return false
}

// takeUpLive makes the live Snapshot the request's where that has an endpoint
// that has not been tried, or a Model to wait for.
func (x *exchange) takeUpLive() bool {
	live := x.server.snapshot()
	wanted, b := live.Backend(x.backend.Key), live.Backend(x.decision.Backend.Key)
	if wanted == nil || b == nil || live == x.snapshot {
		return false
	}
	if !x.untried(wanted, b) && (b.Serverless == nil || len(b.Usable()) > 0) {
		return false
	}
	x.snapshot, x.backend = live, wanted
	return true
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
// another member of the group is Ready or is to be waited for instead. It is never
// true where Decide would send the request back to this wait: it would go round
// without end.
func waitIsOver(live *routing.Snapshot, cold, wanted string) bool {
	b := live.Backend(cold)
	if b == nil || b.Serverless == nil || b.Phase == routing.PhaseFailed || len(b.Usable()) > 0 {
		return true
	}
	if wanted == cold {
		return false
	}
	group := live.Backend(wanted)
	return group == nil || group.ColdStartTarget().Key != cold ||
		slices.ContainsFunc(group.Members, (*routing.CompiledBackend).MemberReady)
}

// wakeCold lets the requests go that the Snapshot which has just gone live no
// longer leaves waiting.
func (s *Server) wakeCold(live *routing.Snapshot) {
	for _, b := range live.Backends() {
		if q := &attachmentOf(b.State).queue; q.depth.Load() > 0 {
			q.wake(func(wanted string) bool { return waitIsOver(live, b.Key, wanted) })
		}
	}
}

// dismissWaiting ends all waits: nobody waits any more, requests are told to
// come again.
func (s *Server) dismissWaiting() {
	s.dismissing.Store(true)
	live := s.snapshot()
	if live == nil {
		return
	}
	for _, b := range live.Backends() {
		attachmentOf(b.State).queue.wake(func(string) bool { return true })
	}
}

// dismissBefore dismisses those who wait shortly before ctx ends; stop gives up
// on that.
func (s *Server) dismissBefore(ctx context.Context) (stop func() bool) {
	end, ends := ctx.Deadline()
	if !ends {
		return func() bool { return true }
	}
	left := time.Until(end)
	return time.AfterFunc(left-min(lastWords, left/2), s.dismissWaiting).Stop
}
