package fastproxy

import (
	"context"
	"fmt"
	"time"
)

const (
	// idleGrace is how long idle connections stay open after a drain began, so
	// that clients about to send learn from an answer, not from a lost request.
	idleGrace = 500 * time.Millisecond
	// drainTick is how often a drain looks around.
	drainTick = 50 * time.Millisecond
	// retireTick is how often a removed port looks for idle connections.
	retireTick = 250 * time.Millisecond
	// retireTime bounds how long exchanges on a removed port may take.
	retireTime = 10 * time.Minute
)

// retireContext bounds the exchanges of a port that is no longer served.
func retireContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), retireTime)
}

// drain ends the front without losing a request: ports are closed once what
// waited to be accepted has been, answers end their connections (GOAWAY on
// HTTP/2), idle connections are closed after a short grace, exchanges and tunnels
// are waited for. When ctx ends, what still runs is cut, and the error says how
// many connections that were.
func (f *front) drain(ctx context.Context) error {
	f.mu.Lock()
	f.draining.Store(true)
	acceptors := make([]*acceptor, 0, len(f.acceptors))
	for port, a := range f.acceptors {
		acceptors = append(acceptors, a)
		delete(f.acceptors, port)
	}
	f.mu.Unlock()
	ended := make(chan error, len(acceptors))
	for _, a := range acceptors {
		queued := acceptQueued(a.listener)
		_ = a.listener.Close()
		for _, c := range queued {
			a.take(c)
		}
		go func() { ended <- shutdownHTTP2(ctx, a.http2) }()
	}
	cut := f.await(ctx)
	for range acceptors {
		<-ended //nolint:errcheck // what it could not end, await has cut and reports
	}
	f.watch.close()
	if cut > 0 {
		return fmt.Errorf("fastproxy: drain ended with %d connections still busy; they were cut: %w", cut, context.Cause(ctx))
	}
	return nil
}

// await waits until no connection is left or ctx ends; it returns how many it
// had to cut.
func (f *front) await(ctx context.Context) (cut int) {
	begun := time.Now()
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	for {
		if time.Since(begun) >= idleGrace || ctx.Err() != nil {
			f.conns.each(func(c *clientConn) { c.end() })
		}
		if f.conns.len() == 0 {
			return 0
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.conns.each(func(c *clientConn) {
				if c.state.Load() != int32(connEnding) {
					cut++
				}
				c.cut()
			})
			f.awaitCut()
			return cut
		}
	}
}

// awaitCut gives the goroutines of connections that were cut a moment to end.
func (f *front) awaitCut() {
	for range 100 {
		if f.conns.len() == 0 {
			return
		}
		time.Sleep(drainTick)
	}
}

// cut ends a connection with its exchange. It does not wait for that, which
// Close would.
func (c *clientConn) cut() {
	c.slot.fire()
	_ = c.raw.SetLinger(0)
	go func() { _ = c.raw.Close() }()
}

// end claims a connection that waits for a request and wakes its goroutine,
// which closes it. Connections that are busy end by themselves.
func (c *clientConn) end() {
	if c.claim(connIdle, connEnding) || c.claim(connNew, connEnding) {
		_ = c.raw.SetReadDeadline(time.Unix(1, 0))
	}
}

// endIdle ends the idle connections of a removed port until it has none left.
func (f *front) endIdle(a *acceptor) {
	time.Sleep(idleGrace)
	for begun := time.Now(); time.Since(begun) < retireTime; time.Sleep(retireTick) {
		left := 0
		f.conns.each(func(c *clientConn) {
			if c.acceptor == a {
				left++
				c.end()
			}
		})
		if left == 0 {
			return
		}
	}
	f.conns.each(func(c *clientConn) {
		if c.acceptor == a {
			c.cut()
		}
	})
}
