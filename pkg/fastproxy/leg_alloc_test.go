//go:build !race

package fastproxy

import (
	"bytes"
	"io"
	"testing"
)

// TestLegAllocs holds what one exchange allocates on a kept connection, the
// engine in the same process included: nothing where request and response are
// complete, at most one where either is streamed.
func TestLegAllocs(t *testing.T) {
	f := func(name, answer string, limit float64, do func(c *legClient, p *pool) error) {
		t.Run(name, func(t *testing.T) {
			e := startRawEngine(t, quickEngine(answer))
			p := newPool(e.address, &upstreamOptions{})
			defer p.close()
			c := newLegClient("POST")
			run := func() {
				if err := do(c, p); err != nil {
					t.Error(err)
				}
			}
			for range 100 {
				run()
			}
			if got := testing.AllocsPerRun(500, run); got > limit {
				t.Errorf("%v allocations, at most %v are allowed", got, limit)
			}
			if e.accepted() != 1 {
				t.Errorf("%d connections", e.accepted())
			}
		})
	}
	body := pattern(2048)
	large := pattern(200_000)
	var dst []byte
	buffered := func(c *legClient, p *pool) error {
		if err := c.begin(p, body, nil); err != nil {
			return err
		}
		var ok bool
		if dst, ok = c.leg.complete(dst[:0]); !ok {
			return io.ErrUnexpectedEOF
		}
		c.leg.close(true)
		return nil
	}
	streaming := func(c *legClient, p *pool) error {
		if err := c.begin(p, body, nil); err != nil {
			return err
		}
		c.sink.reset()
		_, err := c.leg.WriteTo(&c.sink)
		c.leg.trailer(func(_, _ []byte) {})
		c.leg.close(err == nil)
		return err
	}
	const ok = "HTTP/1.1 200 OK\r\nServer: uvicorn\r\nContent-Type: application/json\r\n"
	f("buffered", ok+"Content-Length: 200\r\n\r\n"+string(pattern(200)), 0, buffered)
	f("buffered chunks", ok+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 0, buffered)
	f("streamed length", ok+"Content-Length: 30000\r\n\r\n"+string(pattern(30_000)), 1, streaming)
	f("streamed chunks", ok+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n", 1, streaming)
	stream := bodyOf(0, nil)
	source := bytes.NewReader(nil)
	stream.next = source.Read
	streamed := func(b []byte, length int64) func(c *legClient, p *pool) error {
		return func(c *legClient, p *pool) error {
			source.Reset(b)
			stream.length = length
			if err := c.begin(p, nil, stream); err != nil {
				return err
			}
			c.sink.reset()
			_, err := c.leg.WriteTo(&c.sink)
			c.leg.close(err == nil)
			c.leg.forget()
			return err
		}
	}
	const small = ok + "Content-Length: 2\r\n\r\nok"
	f("small streamed request", small, 1, streamed(body, int64(len(body))))
	f("large streamed request", small, 1, streamed(large, int64(len(large))))
	f("large chunked request", small, 1, streamed(large, -1))
}
