package fastproxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const early413 = "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig"

// TestLegEarlyFinalResponse: a complete early answer to an unfinished 20 MB
// upload is delivered, whatever the endpoint does to its connection then.
func TestLegEarlyFinalResponse(t *testing.T) {
	body := pattern(20 << 20)
	head := func(c *net.TCPConn) {
		bufio.NewReaderSize(c, 4096).ReadSlice('{') // part of the request
		io.WriteString(c, early413)
	}
	f := func(name string, after func(*net.TCPConn)) {
		serve := func(c *net.TCPConn, _ int) { head(c); after(c) }
		run := func(kind string, body []byte, stream func() requestBody) {
			t.Run(name+"/"+kind, func(t *testing.T) {
				e := startRawEngine(t, serve)
				for range 5 {
					p := newPool(e.address, &upstreamOptions{})
					c := newLegClient("POST")
					var s requestBody
					if stream != nil {
						s = stream()
					}
					got, err := c.do(p, body, s)
					if err != nil || string(got) != "big" || c.resp.StatusCode() != 413 {
						t.Fatalf("got %q, %v, status %d", got, err, c.resp.StatusCode())
					}
					if open, _ := p.counts(); open != 0 {
						t.Fatalf("%d connections are left", open)
					}
				}
			})
		}
		run("whole", body, nil)
		run("stream", nil, func() requestBody { return bodyOf(int64(len(body)), bytes.NewReader(body)) })
		run("chunks", nil, func() requestBody { return bodyOf(-1, bytes.NewReader(body)) })
		run("stalled client", nil, func() requestBody { return stalling(body[:100_000], int64(len(body))) })
	}
	f("reads nothing more", func(c *net.TCPConn) { time.Sleep(100 * time.Millisecond) })
	f("reads on", func(c *net.TCPConn) { io.Copy(io.Discard, c) })
	f("closes its side", func(c *net.TCPConn) { c.CloseWrite(); time.Sleep(100 * time.Millisecond) })
	f("closes at once", func(c *net.TCPConn) {})
}

// stalling is a body of which some comes, and the rest only when interrupted.
func stalling(some []byte, length int64) *pieces {
	b := bodyOf(length, nil)
	r := bytes.NewReader(some)
	b.next = func(p []byte) (int, error) {
		if r.Len() > 0 {
			return r.Read(p)
		}
		<-b.broken
		return 0, errBodyTimeout
	}
	return b
}

// TestLegDuplex: an endpoint that answers 200 while it still reads, such as an
// echo, gets the whole body, and the client the whole answer.
func TestLegDuplex(t *testing.T) {
	body := pattern(3 << 20)
	e := startRawEngine(t, func(c *net.TCPConn, _ int) {
		r := bufio.NewReader(c)
		for {
			q, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			w := chunkingWriter{c}
			if _, err := io.CopyBuffer(struct{ io.Writer }{w}, q.Body, make([]byte, 5000)); err != nil {
				return
			}
			io.WriteString(c, "0\r\n\r\n")
		}
	})
	p := newPool(e.address, &upstreamOptions{})
	defer p.close()
	c := newLegClient("POST")
	for i, stream := range []func() requestBody{
		func() requestBody { return nil },
		func() requestBody { return bodyOf(int64(len(body)), bytes.NewReader(body)) },
		func() requestBody { return bodyOf(-1, bytes.NewReader(body)) },
	} {
		for range 3 {
			c.request("POST")
			got, err := c.do(p, body, stream())
			if err != nil || !bytes.Equal(got, body) {
				t.Fatalf("%d: %d bytes, %v", i, len(got), err)
			}
		}
	}
	if e.accepted() != 1 {
		t.Errorf("%d connections", e.accepted())
	}
}

type chunkingWriter struct{ w io.Writer }

func (c chunkingWriter) Write(p []byte) (int, error) {
	b := append([]byte(nil), "1388\r\n"...)
	if len(p) != 5000 {
		b = append(b[:0], strings.ToUpper(hexOf(len(p)))+"\r\n"...)
	}
	if _, err := c.w.Write(append(append(b, p...), "\r\n"...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func hexOf(n int) string {
	const digits = "0123456789abcdef"
	s := ""
	for ; n > 0; n >>= 4 {
		s = string(digits[n&15]) + s
	}
	return s
}

// TestLegUploadFailures: what keeps a large body from being sent.
func TestLegUploadFailures(t *testing.T) {
	body := pattern(20 << 20)
	deaf := func(c *net.TCPConn, _ int) { time.Sleep(2 * time.Second) }
	f := func(name string, serve func(*net.TCPConn, int), set func(*legClient), stream func() requestBody, want error) {
		t.Run(name, func(t *testing.T) {
			e := startRawEngine(t, serve)
			p := newPool(e.address, &upstreamOptions{})
			defer p.close()
			c := newLegClient("POST")
			if set != nil {
				set(c)
			}
			var err error
			if stream == nil {
				_, err = c.do(p, body, nil)
			} else {
				_, err = c.do(p, nil, stream())
			}
			if err != want {
				t.Fatalf("got %v", err)
			}
			if open, _ := p.counts(); open != 0 {
				t.Errorf("%d connections are left", open)
			}
		})
	}
	reads := func(c *net.TCPConn, _ int) { io.Copy(io.Discard, c) }
	streamed := func() requestBody { return bodyOf(int64(len(body)), bytes.NewReader(body)) }
	failing := func(err error) func() requestBody {
		return func() requestBody {
			b := bodyOf(int64(len(body)), nil)
			r := bytes.NewReader(body[:1<<20])
			b.next = func(p []byte) (int, error) {
				if n, _ := r.Read(p); n > 0 {
					return n, nil
				}
				return 0, err
			}
			return b
		}
	}
	idle := func(c *legClient) { c.times.Idle = 150 * time.Millisecond }
	deadline := func(c *legClient) { c.times.Deadline = time.Now().Add(150 * time.Millisecond).UnixNano() }
	f("reads nothing", deaf, idle, nil, errFirstByteTimeout)
	f("reads nothing of a stream", deaf, idle, streamed, errFirstByteTimeout)
	f("reads nothing by the deadline", deaf, deadline, nil, errDeadline)
	f("client gone", reads, nil, failing(errClientGone), errClientGone)
	f("bad body", reads, nil, failing(errBadBody), errBadBody)
	f("slow body", reads, nil, failing(errBodyTimeout), errBodyTimeout)
	f("short body", reads, nil, failing(io.EOF), errClientGone)
	f("panic in the body", reads, nil, func() requestBody {
		b := failing(nil)()
		next := b.(*pieces).next
		b.(*pieces).next = func(p []byte) (int, error) {
			n, err := next(p)
			if n == 0 {
				panic("in a body")
			}
			return n, err
		}
		return b
	}, errBadBody)
	f("slot fired", reads, func(c *legClient) { time.AfterFunc(50*time.Millisecond, c.slot.fire) }, func() requestBody {
		return stalling(body[:100_000], int64(len(body)))
	}, errClientGone)
	f("closed without an answer", func(c *net.TCPConn, _ int) { io.CopyN(io.Discard, c, 1<<20) }, nil, streamed, errNoResponse)
	f("closed without an answer, whole", func(c *net.TCPConn, _ int) { io.CopyN(io.Discard, c, 1<<20) }, nil, nil, errNoResponse)
	f("closed, client stalls", func(c *net.TCPConn, _ int) { io.CopyN(io.Discard, c, 1<<16) }, nil, func() requestBody {
		return stalling(body[:100_000], int64(len(body)))
	}, errNoResponse)
	f("small body cut", reads, nil, func() requestBody { return bodyOf(100, strings.NewReader("abc")) }, errClientGone)
}

// TestLegFirstByteFollowsUpload: the time for the first byte begins when a slow
// upload has ended, not when it began.
func TestLegFirstByteFollowsUpload(t *testing.T) {
	e := startRawEngine(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	p := newPool(e.address, &upstreamOptions{})
	defer p.close()
	c := newLegClient("POST")
	c.times.FirstByte = 200 * time.Millisecond
	for range 2 {
		b := bodyOf(-1, nil)
		left := 10
		b.next = func(p []byte) (int, error) {
			if left == 0 {
				return 0, io.EOF
			}
			left--
			time.Sleep(50 * time.Millisecond)
			return copy(p, "some bytes"), nil
		}
		if got, err := c.do(p, nil, b); err != nil || string(got) != "ok" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if e.accepted() != 1 {
		t.Errorf("%d connections", e.accepted())
	}
}

// TestLegKeptBody: a small streamed body is read whole before anything is sent
// and can be sent again on another connection.
func TestLegKeptBody(t *testing.T) {
	bodies := make(chan string, 10)
	e := startRawEngine(t, func(c *net.TCPConn, n int) {
		r := bufio.NewReader(c)
		for i := 0; ; i++ {
			b, err := readRequest(r)
			if err != nil || n == 0 && i == 1 {
				return // in the very instant of the second request
			}
			bodies <- string(b)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	p := newPool(e.address, &upstreamOptions{})
	defer p.close()
	c := newLegClient("POST")
	if _, err := c.do(p, []byte("first"), nil); err != nil || <-bodies != "first" {
		t.Fatal(err)
	}
	second := string(pattern(inlineBody))
	if err := c.begin(p, nil, bodyOf(inlineBody, strings.NewReader(second))); err != errStale {
		t.Fatal(err)
	}
	kept, ok := c.leg.keptBody()
	if !ok || string(kept) != second {
		t.Fatalf("kept %d bytes, %v", len(kept), ok)
	}
	if got, err := c.do(p, kept, nil); err != nil || string(got) != "ok" || <-bodies != second {
		t.Fatalf("%q, %v", got, err)
	}
	if _, ok := c.leg.keptBody(); ok {
		t.Error("a body is kept after forget")
	}
}

// TestLegStreamSurvivesConnect: a try that read the beginning of a stream and
// then found no connection to send it on leaves nothing out of the next one.
func TestLegStreamSurvivesConnect(t *testing.T) {
	body := pattern(300_000)
	for _, length := range []int64{int64(len(body)), -1} {
		closed := make(chan struct{})
		e := startRawEngine(t, func(c *net.TCPConn, _ int) {
			if _, err := readRequest(bufio.NewReader(c)); err == nil {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
			c.CloseWrite()
			close(closed)
		})
		p := newPool(e.address, &upstreamOptions{})
		c := newLegClient("POST")
		if _, err := c.do(p, nil, nil); err != nil {
			t.Fatal(err)
		}
		<-closed
		e.stop()
		stream := bodyOf(length, bytes.NewReader(body))
		if err := c.begin(p, nil, stream); err != errConnectRefused {
			t.Fatal(err)
		}
		received := make(chan []byte, 1)
		e = startRawEngine(t, func(c *net.TCPConn, _ int) {
			b, _ := readRequest(bufio.NewReader(c))
			received <- b
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		})
		if got, err := c.do(newPool(e.address, &upstreamOptions{}), nil, stream); err != nil || string(got) != "ok" {
			t.Fatalf("%q, %v", got, err)
		}
		if got := <-received; !bytes.Equal(got, body) {
			t.Fatalf("the second endpoint got %d bytes of %d", len(got), len(body))
		}
	}
}
