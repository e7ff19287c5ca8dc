package publish

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// session is one stream to one replica of the controller.
type session struct {
	address string
	woken   chan struct{} // capacity 1

	// Guarded by Subscriber.mu.
	instance string // "" before the replica has said it
	peers    map[string]string
	stale    bool
	end      context.CancelCauseFunc // nil before the stream is open
}

// errRenew ends a session whose certificate is due.
var errRenew = errors.New("the client certificate is renewed")

// errStale ends a session whose replica is followed no more.
var errStale = errors.New("the replica does not reach the API server; another one is followed")

// run opens the stream and serves it until it breaks.
func (c *session) run(ctx context.Context, s *Subscriber) error {
	credential, err := s.enrol.current(ctx, c.address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	renewal := time.AfterFunc(time.Until(credential.renew), func() { cancel(errRenew) })
	defer renewal.Stop()

	s.mu.Lock()
	c.end = cancel
	s.mu.Unlock()
	conn, err := s.enrol.dial(c.address, credential)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stream, err := conn.NewStream(ctx, &serviceDesc.Streams[0], subscribeMethod, grpc.UseCompressor(zstdName))
	if err != nil {
		return s.enrol.judge(credential, err)
	}
	go func() { cancel(c.receive(stream, s)) }()
	err = c.send(ctx, stream, s)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return s.enrol.judge(credential, err)
}

// receive takes what the replica sends. A change counts once it is whole.
func (c *session) receive(stream grpc.ClientStream, s *Subscriber) error {
	var set []resource
	var removed []resourceID
	for {
		var m downstream
		if err := stream.RecvMsg(&m); err != nil {
			return err
		}
		if m.Instance != "" {
			s.greeted(c, &m)
		}
		if m.Update == nil {
			continue
		}
		set, removed = append(set, m.Update.Set...), append(removed, m.Update.Removed...)
		if m.Update.Whole == nil {
			continue
		}
		if s.follows(c) {
			if err := s.take(set, removed, *m.Update.Whole); err != nil {
				return err
			}
		}
		set, removed = nil, nil
	}
}

// follows reports whether c is the session whose Config counts.
func (s *Subscriber) follows(c *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.followed == c
}

// sendGap is the least time between two messages.
const sendGap = 20 * time.Millisecond

// send tells what is new until ctx ends.
func (c *session) send(ctx context.Context, stream grpc.ClientStream, s *Subscriber) error {
	var follow bool
	var ack *acknowledgment
	var told *demand
	passed := make(chan time.Time)
	close(passed)
	var gap <-chan time.Time = passed
	for {
		s.mu.Lock()
		followed, nextAck, nextDemand := s.followed == c, s.ack, s.demand
		s.mu.Unlock()
		if followed && !follow {
			follow = true
			if err := sendHeld(stream, s.held()); err != nil {
				return err
			}
		}
		m := upstream{}
		if nextAck != ack {
			m.Ack, ack = nextAck, nextAck
		}
		if nextDemand != told {
			m.Demand, told = s.aged(time.Now()), nextDemand
		}
		if m.Ack != nil || m.Demand != nil {
			if err := stream.SendMsg(&m); err != nil {
				return err
			}
			gap = time.After(sendGap)
		}
		select { // the newest will do: the controller hears a pod so often and no oftener
		case <-gap:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		gap = passed
		select {
		case <-c.woken:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sendHeld says which versions are held and asks for what is new from now on.
func sendHeld(stream grpc.ClientStream, held map[resourceID]string) error {
	part, bytes := map[resourceID]string{}, 0
	for id, version := range held {
		part[id] = version
		if bytes += heldBytes(id, version); bytes >= chunkBytes {
			if err := stream.SendMsg(&upstream{Held: part}); err != nil {
				return err
			}
			part, bytes = map[resourceID]string{}, 0
		}
	}
	return stream.SendMsg(&upstream{Held: part, Follow: true})
}

// judge has a credential that was refused made anew next time.
func (e *enrollment) judge(c *credential, err error) error {
	if status.Code(err) == codes.Unauthenticated {
		e.drop(c)
	}
	return err
}
