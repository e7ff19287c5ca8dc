package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Bounds of what one pod may say.
const (
	maxHeldBytes   = 32 << 20        // resources that it holds, some 200,000
	maxRefused     = 1024            // resources of one acknowledgement
	maxReason      = 1024            // bytes
	maxDemanded    = 1 << 14         // Models of one report
	saysRate       = rate.Limit(100) // messages a second, of which a pod sends half as many
	saysBurst      = 256             // for what it holds
	maxFutureYears = 10 * 365 * 24 * time.Hour
)

// subscription is one gateway pod's stream.
type subscription struct {
	who    Identity
	since  time.Time
	cancel context.CancelCauseFunc
	woken  chan struct{} // capacity 1

	mu        sync.Mutex
	follow    bool
	held      map[resourceID]string // what the pod has, the sender's once it follows
	heldBytes int
	ack       acknowledgment
}

func (s *subscription) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

func (s *subscription) state() PodState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return PodState{
		Pod: s.who.Pod, Connected: s.since,
		Generation: s.ack.Generation, Version: s.ack.Version, Refused: slices.Clone(s.ack.Refused), Error: s.ack.Error,
	}
}

var (
	errReplaced = status.Error(codes.Aborted, "the pod has opened a newer stream")
	errExpired  = status.Error(codes.Unauthenticated, "the client certificate has expired: enroll again")
)

// subscribe serves one stream: a goroutine sends, another receives. It does not
// wait for them: they may be held up by a pod that neither reads nor leaves, and
// end with the stream.
func (p *Publisher) subscribe(stream grpc.ServerStream) error {
	who, until, err := subscriber(stream.Context())
	if err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	expiry := time.AfterFunc(time.Until(until), func() { cancel(errExpired) })
	defer expiry.Stop()

	s := &subscription{who: who, since: time.Now(), cancel: cancel, woken: make(chan struct{}, 1), held: map[resourceID]string{}}
	p.join(s)
	defer p.leave(s)
	go func() { cancel(p.receive(ctx, stream, s)) }()
	go func() { cancel(p.send(ctx, stream, s)) }()
	<-ctx.Done()
	return context.Cause(ctx)
}

// subscriber is who has opened a stream, and until when its certificate holds.
func subscriber(ctx context.Context) (Identity, time.Time, error) {
	pr, ok := peer.FromContext(ctx)
	if !ok {
		return Identity{}, time.Time{}, errors.New("no peer")
	}
	info, ok := pr.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return Identity{}, time.Time{}, errors.New("no client certificate: enroll first")
	}
	cert := info.State.VerifiedChains[0][0]
	who, err := identityOf(cert)
	return who, cert.NotAfter, err
}

// join makes s the pod's stream; an older one ends.
func (p *Publisher) join(s *subscription) {
	p.mu.Lock()
	g := p.gateway(s.who.Gateway)
	older := g.subscriptions[s.who.Pod]
	g.subscriptions[s.who.Pod] = s
	p.mu.Unlock()
	if older != nil {
		older.cancel(errReplaced)
	}
	p.metrics.streams.Inc()
	p.o.Logger.Info("gateway pod connected", "gateway", s.who.Gateway, "pod", s.who.Pod)
	p.o.Changed(s.who.Gateway)
}

func (p *Publisher) leave(s *subscription) {
	p.mu.Lock()
	g := p.gateways[s.who.Gateway]
	current := g != nil && g.subscriptions[s.who.Pod] == s
	if current {
		delete(g.subscriptions, s.who.Pod)
		p.forget(s.who.Gateway, g)
	}
	p.mu.Unlock()
	p.metrics.streams.Dec()
	if current {
		p.o.Logger.Info("gateway pod disconnected", "gateway", s.who.Gateway, "pod", s.who.Pod)
		p.o.Demand(Report{Gateway: s.who.Gateway, Pod: s.who.Pod, Gone: true})
		p.o.Changed(s.who.Gateway)
	}
}

// receive takes what the pod says until the stream ends. A pod that says more than
// it should is heard later.
func (p *Publisher) receive(ctx context.Context, stream grpc.ServerStream, s *subscription) error {
	pace := rate.NewLimiter(saysRate, saysBurst)
	for {
		if err := pace.Wait(ctx); err != nil {
			return err
		}
		var m upstream
		if err := stream.RecvMsg(&m); err != nil {
			return err
		}
		if err := p.take(s, &m); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
	}
}

func (p *Publisher) take(s *subscription, m *upstream) error {
	if m.Held != nil || m.Follow {
		if err := s.takeHeld(m); err != nil {
			return err
		}
	}
	if m.Ack != nil {
		p.takeAck(s, m.Ack)
	}
	if m.Demand != nil {
		if len(m.Demand.Models) > maxDemanded {
			return fmt.Errorf("a report names %d Models, at most %d are taken", len(m.Demand.Models), maxDemanded)
		}
		p.o.Demand(m.Demand.report(s.who, time.Now()))
	}
	return nil
}

// takeHeld notes what the pod has. Once it follows, the sender knows better.
func (s *subscription) takeHeld(m *upstream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.follow {
		return errors.New("the stream follows already")
	}
	for id, version := range m.Held {
		s.heldBytes += heldBytes(id, version)
	}
	if s.heldBytes > maxHeldBytes {
		return fmt.Errorf("the pod says to hold resources whose names have more than %d bytes", maxHeldBytes)
	}
	maps.Copy(s.held, m.Held)
	if m.Follow {
		s.follow = true
		s.wake()
	}
	return nil
}

// heldBytes is about what it takes to remember, or to send, what a pod holds.
func heldBytes(id resourceID, version string) int {
	return len(id.Kind) + len(id.Key) + len(version) + 64
}

func (p *Publisher) takeAck(s *subscription, a *acknowledgment) {
	a.Error = cut(a.Error)
	a.Refused = a.Refused[:min(len(a.Refused), maxRefused)]
	a.Version = cut(a.Version)
	for i := range a.Refused {
		r := &a.Refused[i]
		r.Key, r.Version, r.Reason = cut(r.Key), cut(r.Version), cut(r.Reason)
	}
	s.mu.Lock()
	s.ack = *a
	s.mu.Unlock()
	p.metrics.acknowledged(a)
	p.o.Changed(s.who.Gateway)
}

// cut is the beginning of a text.
func cut(text string) string {
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") // the cut may go through a character
}

// report turns ages into times of this process's clock.
func (d *demand) report(who Identity, now time.Time) Report {
	r := Report{Gateway: who.Gateway, Pod: who.Pod}
	for _, m := range d.Models {
		one := ModelDemand{Model: m.Model, Waiting: max(m.Waiting, 0), Running: max(m.Running, 0)}
		if m.Idle >= 0 && m.Idle < maxFutureYears.Milliseconds() {
			one.LastActive = now.Add(-time.Duration(m.Idle) * time.Millisecond)
		}
		r.Models = append(r.Models, one)
	}
	return r
}

// send sends what is new until ctx ends.
func (p *Publisher) send(ctx context.Context, stream grpc.ServerStream, s *subscription) error {
	hello := true
	var peers map[string]string
	var stale bool
	var sent *revision
	for {
		p.mu.Lock()
		currentPeers, isStale, revision := p.peers, p.stale, p.published(s)
		p.mu.Unlock()
		if hello || stale != isStale || !maps.Equal(peers, currentPeers) {
			peers, stale, hello = currentPeers, isStale, false
			if err := stream.SendMsg(&downstream{Instance: p.o.Instance, Peers: peers, Stale: stale}); err != nil {
				return err
			}
		}
		if s.following() && revision != nil && revision != sent {
			if err := p.sendChange(stream, s, revision); err != nil {
				return err
			}
			sent = revision
		}
		select {
		case <-s.woken:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// published is what the Gateway of s gets; p.mu is held.
func (p *Publisher) published(s *subscription) *revision {
	if g := p.gateways[s.who.Gateway]; g != nil {
		return g.revision
	}
	return nil
}

func (s *subscription) following() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.follow
}

// sendChange sends what makes of what the pod holds the revision.
func (p *Publisher) sendChange(stream grpc.ServerStream, s *subscription, r *revision) error {
	set, removed := difference(s.held, r)
	for part := range parts(set, removed, r.whole) {
		if err := stream.SendMsg(&downstream{Update: part}); err != nil {
			return err
		}
	}
	p.metrics.sent(len(set), len(removed))
	s.held = make(map[resourceID]string, len(r.resources))
	for id, res := range r.resources {
		s.held[id] = res.Version
	}
	return nil
}

// difference is what turns held into r, in an order that is always the same.
func difference(held map[resourceID]string, r *revision) (set []resource, removed []resourceID) {
	for id, res := range r.resources {
		if held[id] != res.Version {
			set = append(set, *res)
		}
	}
	for id := range held {
		if r.resources[id] == nil {
			removed = append(removed, id)
		}
	}
	slices.SortFunc(set, func(a, b resource) int { return a.ID.compare(b.ID) })
	slices.SortFunc(removed, resourceID.compare)
	return set, removed
}

// parts cuts a change into messages; the last one names the whole.
func parts(set []resource, removed []resourceID, w whole) func(yield func(*update) bool) {
	return func(yield func(*update) bool) {
		part, bytes := &update{}, 0
		flush := func() bool {
			sent := part
			part, bytes = &update{}, 0
			return yield(sent)
		}
		for i := range removed {
			part.Removed = append(part.Removed, removed[i])
			if bytes += len(removed[i].Key) + 32; bytes >= chunkBytes && !flush() {
				return
			}
		}
		for i := range set {
			part.Set = append(part.Set, set[i])
			if bytes += len(set[i].Content); bytes >= chunkBytes && !flush() {
				return
			}
		}
		part.Whole = &w
		yield(part)
	}
}
