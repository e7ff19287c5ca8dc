package main

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"strconv"
	"time"
)

// Streams of events that are open at once: so many that they fill a machine of
// two CPUs, and so few that there is room.
const (
	manyStreams = 1000
	fewStreams  = 200
)

// eventLoad opens n streams of events and takes the time from an event's sending
// by the engine to its arrival here; they share a clock. The figures count
// events. What a proxy adds is the difference to the row "direct".
func eventLoad(n int) load {
	return func(ctx context.Context, address string, d time.Duration) (figures, error) {
		return clients(ctx, d, n, func(ctx context.Context, i int, done func(time.Duration)) error {
			// Not all at once: a queue of connections is not what is measured.
			select {
			case <-time.After(min(time.Second, d/2) * time.Duration(i) / time.Duration(n)):
				return readEvents(ctx, address, i, done)
			case <-ctx.Done():
				return nil
			}
		})
	}
}

// readEvents reads one stream until ctx ends it.
func readEvents(ctx context.Context, address string, session int, done func(time.Duration)) error {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := c.Write(get(eventsPath, session)); err != nil {
		return err
	}
	r := bufio.NewReaderSize(c, 4<<10)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		// "data: 1700000000000000000 xxx"; other lines are the chunks' and the head's.
		if rest, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			at, _, _ := bytes.Cut(rest, []byte{' '})
			if sent, err := strconv.ParseInt(string(at), 10, 64); err == nil {
				done(time.Since(time.Unix(0, sent)))
			}
		}
	}
}
