package fastproxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"
)

// TestLegFraming holds, for each way in which a response may end, what the
// client gets and whether the connection serves the next request.
func TestLegFraming(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	big := string(pattern(300_000))
	f := func(name, method, answer string, framing bodyFraming, length int64, body string, reused bool) {
		t.Run(name, func(t *testing.T) {
			closes := framing == bodyUntilClose
			e := startRawEngine(t, func(c *net.TCPConn, _ int) {
				r := bufio.NewReader(c)
				for {
					if _, err := readRequest(r); err != nil {
						return
					}
					io.WriteString(c, answer)
					if closes {
						return
					}
				}
			})
			p := newPool(e.address, &upstreamOptions{})
			defer p.close()
			c := newLegClient(method)
			const rounds = 3
			for range rounds {
				if err := c.begin(p, nil, nil); err != nil {
					t.Fatal(err)
				}
				if gotFraming, gotLength := c.leg.framing(); gotFraming != framing || gotLength != length {
					t.Fatalf("framing %d of length %d, want %d of %d", gotFraming, gotLength, framing, length)
				}
				got, err := c.finish()
				if err != nil || string(got) != body {
					t.Fatalf("got %d bytes and %v, want %d", len(got), err, len(body))
				}
			}
			if got := e.accepted() == 1; got != reused {
				t.Errorf("%d requests came on %d connections", rounds, e.accepted())
			}
			eventually(t, "no connection is open that should not be", func() bool {
				open, idle := p.counts()
				return open == idle && (idle == 1) == reused
			})
		})
	}
	f("length", "GET", ok+"Content-Length: 5\r\n\r\nhello", bodyLength, 5, "hello", true)
	f("length 0", "GET", ok+"Content-Length: 0\r\n\r\n", bodyNone, 0, "", true)
	f("long length", "GET", ok+"Content-Length: 300000\r\n\r\n"+big, bodyLength, 300_000, big, true)
	f("chunks", "GET", ok+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n", bodyChunked, -1, "hello world", true)
	f("chunks with trailers", "GET", ok+"Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n", bodyChunked, -1, "hello", true)
	f("long chunks", "GET", ok+"Transfer-Encoding: chunked\r\n\r\n493E0 \r\n"+big+"\r\n0\r\n\r\n", bodyChunked, -1, big, true)
	f("until close", "GET", ok+"\r\nhello", bodyUntilClose, -1, "hello", false)
	f("long until close", "GET", ok+"\r\n"+big, bodyUntilClose, -1, big, false)
	f("HEAD", "HEAD", ok+"Content-Length: 5\r\n\r\n", bodyNone, 0, "", true)
	f("HEAD of chunks", "HEAD", ok+"Transfer-Encoding: chunked\r\n\r\n", bodyNone, 0, "", true)
	f("204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", bodyNone, 0, "", true)
	f("304 with length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", bodyNone, 0, "", true)
	f("no reason", "GET", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", bodyLength, 2, "ok", true)
	f("close", "GET", ok+"Connection: x, Close\r\nContent-Length: 2\r\n\r\nok", bodyLength, 2, "ok", false)
	f("HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", bodyLength, 2, "ok", false)
	f("HTTP/1.0 kept", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", bodyLength, 2, "ok", true)
	f("surplus", "GET", ok+"Content-Length: 2\r\n\r\nokPOISON", bodyLength, 2, "ok", false)
	f("surplus behind chunks", "GET", ok+"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", bodyChunked, -1, "ok", false)
	f("body of a 204", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", bodyNone, 0, "", false)
	f("body of HEAD", "HEAD", ok+"Content-Length: 5\r\n\r\nhello", bodyNone, 0, "", false)
	f("head of 40 KB", "GET", ok+"X: "+strings.Repeat("x", 40_000)+"\r\nContent-Length: 2\r\n\r\nok", bodyLength, 2, "ok", false)
}

// TestLegRefusesHeads holds what a response's head must not be.
func TestLegRefusesHeads(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	f := func(name, answer string) {
		t.Run(name, func(t *testing.T) {
			e := startRawEngine(t, answering(answer))
			p := newPool(e.address, &upstreamOptions{})
			defer p.close()
			c := newLegClient("GET")
			if err := c.begin(p, nil, nil); err != errBadResponse {
				t.Fatalf("got %v and status %d", err, c.resp.StatusCode())
			}
			if open, _ := p.counts(); open != 0 {
				t.Errorf("%d connections are left", open)
			}
		})
	}
	f("status 099", "HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n")
	f("status 600", "HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n")
	f("status of two digits", "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n")
	f("status of four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n")
	f("status in letters", "HTTP/1.1 2OO OK\r\nContent-Length: 0\r\n\r\n")
	f("HTTP/2", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n")
	f("HTTP/0.9", "<html>\r\n\r\n")
	f("empty line in front", "\r\n"+ok+"Content-Length: 0\r\n\r\n")
	f("two lengths", ok+"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok")
	f("length list", ok+"Content-Length: 2, 2\r\n\r\nok")
	f("signed length", ok+"Content-Length: +2\r\n\r\nok")
	f("empty length", ok+"Content-Length:\r\n\r\nok")
	f("huge length", ok+"Content-Length: 99999999999999999999\r\n\r\nok")
	f("length and chunks", ok+"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
	f("two encodings", ok+"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	f("identity", ok+"Transfer-Encoding: identity\r\n\r\n")
	f("gzip, chunked", ok+"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")
	f("chunks in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	f("fold", ok+"X: a\r\n b\r\nContent-Length: 0\r\n\r\n")
	f("space in name", ok+"Content Length: 0\r\n\r\n")
	f("space before colon", ok+"Content-Length : 0\r\n\r\n")
	f("no colon", ok+"Content-Length\r\n\r\n")
	f("no name", ok+": x\r\n\r\n")
	f("NUL in value", ok+"X: a\x00b\r\nContent-Length: 0\r\n\r\n")
	f("bare CR in value", ok+"X: a\rb\r\nContent-Length: 0\r\n\r\n")
	f("bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n")
	f("one bare LF", ok+"X: a\nContent-Length: 0\r\n\r\n")
	f("head of 100 KB", ok+"X: "+strings.Repeat("x", 100_000)+"\r\nContent-Length: 0\r\n\r\n")
	f("101 unasked", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
	f("100 for ever", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100))
}

// TestLegInterim: 103 is passed on with its fields, 100 is not, and neither
// disturbs the final head.
func TestLegInterim(t *testing.T) {
	e := startRawEngine(t, answering("HTTP/1.1 100 Continue\r\n\r\n"+
		"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"+
		"HTTP/1.1 103 Early Hints\r\nLink: </b.css>\r\n\r\n"+
		"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 2\r\n\r\nok"))
	p := newPool(e.address, &upstreamOptions{})
	defer p.close()
	c := newLegClient("GET")
	for range 2 {
		got, err := c.do(p, nil, nil)
		if err != nil || string(got) != "ok" || string(c.resp.Peek("X-A")) != "b" || len(c.resp.Peek("Link")) > 0 {
			t.Fatalf("got %q, %v, head %s", got, err, &c.resp)
		}
		if len(c.infos) != 2 || !strings.Contains(c.infos[0], "103") || !strings.Contains(c.infos[1], "Link: </b.css>") {
			t.Fatalf("interim responses %q", c.infos)
		}
	}
}

// TestLegTrailers: trailers arrive, the ones that frame messages do not.
func TestLegTrailers(t *testing.T) {
	e := startRawEngine(t, answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"2\r\nok\r\n0\r\nX-A:  1 \r\nContent-Length: 5\r\nX-B: 2\r\n\r\n"))
	p := newPool(e.address, &upstreamOptions{})
	defer p.close()
	c := newLegClient("GET")
	for range 2 {
		if err := c.begin(p, nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, ok := c.leg.complete(nil); ok {
			t.Fatal("a body with trailers was complete without them")
		}
		if _, err := c.leg.WriteTo(&c.sink); err != nil {
			t.Fatal(err)
		}
		var got []string
		c.leg.trailer(func(k, v []byte) { got = append(got, string(k)+"="+string(v)) })
		if diff := cmp.Diff([]string{"X-A=1", "X-B=2"}, got); diff != "" {
			t.Fatal(diff)
		}
		c.leg.close(true)
	}
	if e.accepted() != 1 {
		t.Errorf("%d connections for two exchanges", e.accepted())
	}
}

// TestLegRequestBytes holds what the endpoint receives.
func TestLegRequestBytes(t *testing.T) {
	f := func(method string, body []byte, stream requestBody, want string) {
		t.Helper()
		received := make(chan string, 1)
		e := startRawEngine(t, func(c *net.TCPConn, _ int) {
			c.SetReadDeadline(time.Now().Add(20 * time.Second))
			b := make([]byte, len(want))
			n, _ := io.ReadFull(c, b)
			received <- string(b[:n])
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		})
		p := newPool(e.address, &upstreamOptions{})
		defer p.close()
		c := newLegClient(method)
		c.head.SetProtocol("HTTP/1.0")
		if got, err := c.do(p, body, stream); err != nil || string(got) != "ok" {
			t.Fatalf("got %q, %v", got, err)
		}
		if diff := cmp.Diff(want, <-received); diff != "" {
			t.Errorf("%s: %s", method, diff)
		}
	}
	slowly := func(parts ...string) requestBody {
		return bodyOf(-1, &oneByOne{parts: parts})
	}
	const first, host = " /v1/x?y=1 HTTP/1.1\r\nHost: engine.test\r\n", "\r\n"
	f("GET", nil, nil, "GET"+first+host)
	f("DELETE", nil, nil, "DELETE"+first+host)
	f("POST", nil, nil, "POST"+first+"Content-Length: 0\r\n"+host)
	f("PUT", nil, bodyOf(0, strings.NewReader("")), "PUT"+first+"Content-Length: 0\r\n"+host)
	f("POST", []byte("hello"), nil, "POST"+first+"Content-Length: 5\r\n"+host+"hello")
	f("GET", []byte("hello"), nil, "GET"+first+"Content-Length: 5\r\n"+host+"hello")
	f("POST", nil, bodyOf(5, strings.NewReader("hello")), "POST"+first+"Content-Length: 5\r\n"+host+"hello")
	f("POST", nil, slowly("hello", " world"), "POST"+first+"Transfer-Encoding: chunked\r\n"+host+"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
	long := pattern(200_000)
	f("POST", long, nil, "POST"+first+"Content-Length: 200000\r\n"+host+string(long))
	f("POST", nil, bodyOf(200_000, bytes.NewReader(long)), "POST"+first+"Content-Length: 200000\r\n"+host+string(long))
	edge := pattern(inlineBody + 1)
	f("POST", edge, nil, "POST"+first+"Content-Length: 49153\r\n"+host+string(edge))
	f("POST", nil, bodyOf(inlineBody, bytes.NewReader(edge[1:])), "POST"+first+"Content-Length: 49152\r\n"+host+string(edge[1:]))
}

// oneByOne gives its parts, one a Read, and io.EOF alone at the end.
type oneByOne struct{ parts []string }

func (r *oneByOne) Read(p []byte) (int, error) {
	if len(r.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.parts[0])
	r.parts = r.parts[1:]
	return n, nil
}

// TestLegConnect: a refused connection, one that is never answered, and a
// client that leaves meanwhile.
func TestLegConnect(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ln.Close()
		p := newPool(ln.Addr().String(), &upstreamOptions{})
		if err := newLegClient("GET").begin(p, nil, nil); err != errConnectRefused || !connectFailed(err) {
			t.Fatal(err)
		}
		if open, _ := p.counts(); open != 0 || p.failures.Load() != 1 {
			t.Errorf("%d open, %d failures", open, p.failures.Load())
		}
	})
	t.Run("unanswered", func(t *testing.T) {
		p := newPool(deafAddress(t), &upstreamOptions{})
		c := newLegClient("GET")
		c.times.Connect = 150 * time.Millisecond
		begin := time.Now()
		if err := c.begin(p, nil, nil); err != errConnectTimeout {
			t.Fatal(err)
		}
		t.Logf("gave up after %v", time.Since(begin))
		c.times.Connect = time.Minute
		c.times.Deadline = time.Now().Add(150 * time.Millisecond).UnixNano()
		if err := c.begin(p, nil, nil); err != errDeadline {
			t.Fatal(err)
		}
	})
	t.Run("client gone", func(t *testing.T) {
		p := newPool(deafAddress(t), &upstreamOptions{})
		c := newLegClient("GET")
		c.times.Connect = time.Minute
		time.AfterFunc(50*time.Millisecond, c.slot.fire)
		if err := c.begin(p, nil, nil); err != errClientGone {
			t.Fatal(err)
		}
		if err := c.begin(p, nil, nil); err != errClientGone {
			t.Fatal(err)
		}
		if open, _ := p.counts(); open != 0 || p.failures.Load() != 0 {
			t.Errorf("%d open, %d failures", open, p.failures.Load())
		}
	})
	t.Run("no such name", func(t *testing.T) {
		p := newPool("no-such-name.invalid:80", &upstreamOptions{})
		if err := newLegClient("GET").begin(p, nil, nil); err != errConnectFailed {
			t.Fatal(err)
		}
	})
}

// deafAddress is an address whose listener's queue is full, so that the kernel
// leaves further connections unanswered.
func deafAddress(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: at.(*unix.SockaddrInet4).Port}).String()
	for range 10 {
		c, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the kernel answers connections beyond the listener's queue")
	return ""
}

// TestLegTimes: each time-out, the error that it gives, and that it is in time.
func TestLegTimes(t *testing.T) {
	f := func(name string, serve func(*net.TCPConn, int), set func(*legTimes), want error, received string) {
		t.Run(name, func(t *testing.T) {
			e := startRawEngine(t, serve)
			p := newPool(e.address, &upstreamOptions{})
			defer p.close()
			c := newLegClient("GET")
			for range 2 { // the second time deadlines are armed from the first
				set(&c.times)
				begin := time.Now()
				err := c.begin(p, nil, nil)
				var got []byte
				if err == nil {
					got, err = c.finish()
				}
				if err != want || string(got) != received {
					t.Fatalf("got %q, %v after %v", got, err, time.Since(begin))
				}
				if d := time.Since(begin); d < 150*time.Millisecond {
					t.Fatalf("gave up after %v already", d)
				}
				if open, _ := p.counts(); open != 0 {
					t.Fatalf("%d connections are left", open)
				}
			}
		})
	}
	silent := func(c *net.TCPConn, _ int) { io.Copy(io.Discard, c) }
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
	stuck := func(s string) func(*net.TCPConn, int) {
		return func(c *net.TCPConn, _ int) {
			io.WriteString(c, s)
			io.Copy(io.Discard, c)
		}
	}
	firstByte := func(t *legTimes) { t.FirstByte = 150 * time.Millisecond }
	idle := func(t *legTimes) { t.Idle = 150 * time.Millisecond }
	deadline := func(t *legTimes) { t.Deadline = time.Now().Add(150 * time.Millisecond).UnixNano() }
	f("no response", silent, firstByte, errFirstByteTimeout, "")
	f("half a head", stuck(head[:20]), firstByte, errFirstByteTimeout, "")
	f("half a body", stuck(head+"hello"), idle, errIdleTimeout, "hello")
	f("half of chunks", stuck("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), idle, errIdleTimeout, "hello")
	f("no end", stuck("HTTP/1.1 200 OK\r\n\r\nhello"), idle, errIdleTimeout, "hello")
	f("no response by the deadline", silent, deadline, errDeadline, "")
	f("half a body by the deadline", stuck(head+"hello"), deadline, errDeadline, "hello")
}

// TestLegTimesOnKeptConnections: an early timer, left from a short time-out,
// does not cut a later exchange that has more time, nor one without a limit.
func TestLegTimesOnKeptConnections(t *testing.T) {
	e := startRawEngine(t, func(c *net.TCPConn, _ int) {
		r := bufio.NewReader(c)
		for n := 0; ; n++ {
			if _, err := readRequest(r); err != nil {
				return
			}
			if n > 0 {
				time.Sleep(300 * time.Millisecond)
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
			if n > 0 {
				time.Sleep(300 * time.Millisecond)
			}
			io.WriteString(c, "k")
		}
	})
	p := newPool(e.address, &upstreamOptions{})
	defer p.close()
	c := newLegClient("GET")
	for i, limit := range []time.Duration{200 * time.Millisecond, time.Minute, 0} {
		c.times = legTimes{FirstByte: limit, Idle: limit}
		if got, err := c.do(p, nil, nil); err != nil || string(got) != "ok" {
			t.Fatalf("exchange %d: %q, %v", i, got, err)
		}
	}
	if e.accepted() != 1 {
		t.Errorf("%d connections", e.accepted())
	}
}

// TestLegNoResponse: a connection that ends before the first byte. Fresh or
// late it is never sent again; a reused one that was closed in the instant of
// the write is.
func TestLegNoResponse(t *testing.T) {
	f := func(name string, serve func(c *net.TCPConn, r *bufio.Reader, n int) bool, rounds int, want error) {
		t.Run(name, func(t *testing.T) {
			e := startRawEngine(t, func(c *net.TCPConn, _ int) {
				r := bufio.NewReader(c)
				for n := 0; ; n++ {
					if _, err := readRequest(r); err != nil || !serve(c, r, n) {
						return
					}
				}
			})
			p := newPool(e.address, &upstreamOptions{})
			defer p.close()
			c := newLegClient("POST")
			var err error
			for range rounds {
				_, err = c.do(p, []byte("{}"), nil)
			}
			if err != want {
				t.Fatalf("got %v", err)
			}
		})
	}
	answer := func(c *net.TCPConn) bool {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		return true
	}
	f("fresh, closed", func(*net.TCPConn, *bufio.Reader, int) bool { return false }, 1, errNoResponse)
	f("fresh, reset", func(c *net.TCPConn, _ *bufio.Reader, _ int) bool { c.SetLinger(0); return false }, 1, errNoResponse)
	f("reused, closed", func(c *net.TCPConn, _ *bufio.Reader, n int) bool { return n == 0 && answer(c) }, 2, errStale)
	f("reused, reset", func(c *net.TCPConn, _ *bufio.Reader, n int) bool { c.SetLinger(0); return n == 0 && answer(c) }, 2, errStale)
	f("reused, closed late", func(c *net.TCPConn, _ *bufio.Reader, n int) bool {
		if n > 0 {
			time.Sleep(250 * time.Millisecond)
		}
		return n == 0 && answer(c)
	}, 2, errNoResponse)
	f("reused, given up with 408", func(c *net.TCPConn, _ *bufio.Reader, n int) bool {
		if n > 0 {
			io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}
		return n == 0 && answer(c)
	}, 2, errStale)
	f("reused, 408 after a while", func(c *net.TCPConn, _ *bufio.Reader, n int) bool {
		if n > 0 {
			time.Sleep(250 * time.Millisecond)
			io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}
		return n == 0 && answer(c)
	}, 2, nil)
	f("reused, closed within the head", func(c *net.TCPConn, _ *bufio.Reader, n int) bool {
		if n > 0 {
			io.WriteString(c, "HTTP/1.1 20")
		}
		return n == 0 && answer(c)
	}, 2, errBadResponse)
}

// TestLegFlushes: each read of the endpoint is one write and one flush at once,
// several chunks in one read too.
func TestLegFlushes(t *testing.T) {
	next := make(chan string)
	e := startRawEngine(t, func(c *net.TCPConn, _ int) {
		readRequest(bufio.NewReader(c))
		for s := range next {
			io.WriteString(c, s)
		}
	})
	p := newPool(e.address, &upstreamOptions{})
	defer p.close()
	c := newLegClient("GET")
	wrote := make(chan string, 10)
	c.sink.wrote = func() { wrote <- c.sink.String() }
	go func() { next <- "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" }()
	if err := c.begin(p, nil, nil); err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() {
		_, err := c.finish()
		result <- err
	}()
	want := ""
	for _, s := range []string{"1\r\na\r\n", "2\r\nbc\r\n3\r\ndef\r\n1\r\ng\r\n", ": ping", "h\r\n"} {
		if strings.HasPrefix(s, ":") {
			next <- "7\r\n" + s // a chunk that has not ended is passed on too
			want += s
		} else {
			next <- s
			want += strings.NewReplacer("1\r\na\r\n", "a", "2\r\nbc\r\n3\r\ndef\r\n1\r\ng\r\n", "bcdefg", "\r\n", "").Replace(s)
		}
		if got := <-wrote; got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	next <- "0\r\n\r\n"
	if err := <-result; err != nil || c.sink.flushes != 4 {
		t.Fatalf("%v, %d flushes", err, c.sink.flushes)
	}
	close(next)
}

// TestLegCut: a body that ends early, or breaks its framing, is an error after
// all that came before it has been passed on.
func TestLegCut(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	long := string(pattern(100_000))
	f := func(name, answer string, reset bool, body string, want error) {
		t.Run(name, func(t *testing.T) {
			e := startRawEngine(t, func(c *net.TCPConn, _ int) {
				readRequest(bufio.NewReader(c))
				io.WriteString(c, answer)
				if reset {
					time.Sleep(100 * time.Millisecond) // a reset overtakes bytes that are not yet read
					c.SetLinger(0)
				}
			})
			p := newPool(e.address, &upstreamOptions{})
			defer p.close()
			c := newLegClient("GET")
			got, err := c.do(p, nil, nil)
			if err != want || string(got) != body {
				t.Fatalf("got %d bytes, %v; want %d, %v", len(got), err, len(body), want)
			}
			if open, _ := p.counts(); open != 0 {
				t.Errorf("%d connections are left", open)
			}
		})
	}
	f("short of length", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", false, "hello", errUpstreamCut)
	f("short of length, reset", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", true, "hello", errUpstreamCut)
	f("short of a great length", "HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n"+long, false, long, errUpstreamCut)
	f("no last chunk", chunked+"5\r\nhello\r\n", false, "hello", errUpstreamCut)
	f("within a chunk", chunked+"6\r\nhello", false, "hello", errUpstreamCut)
	f("within a size", chunked+"5\r\nhello\r\n1", false, "hello", errUpstreamCut)
	f("within the last chunk", chunked+"5\r\nhello\r\n0\r\n", false, "hello", errUpstreamCut)
	f("within chunks, reset", chunked+"5\r\nhello\r\n", true, "hello", errUpstreamCut)
	f("until close, reset", "HTTP/1.1 200 OK\r\n\r\nhello", true, "hello", errUpstreamCut)
	f("no size", chunked+"5\r\nhello\r\n\r\n", false, "hello", errBadResponse)
	f("bad size", chunked+"5\r\nhello\r\n0x5\r\nhello\r\n", false, "hello", errBadResponse)
	f("chunk longer than its size", chunked+"5\r\nhello!\r\n0\r\n\r\n", false, "hello", errBadResponse)
	f("bare LF", chunked+"5\nhello\n0\n\n", false, "", errBadResponse)
	f("extension flood in a line", chunked+"5\r\nhello\r\n5;"+strings.Repeat("x", 5000)+"\r\nhello\r\n0\r\n\r\n", false, "hello", errBadResponse)
	f("bad trailer", chunked+"5\r\nhello\r\n0\r\nX Y: z\r\n\r\n", false, "hello", errBadResponse)
	f("trailer flood", chunked+"5\r\nhello\r\n0\r\n"+strings.Repeat("X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n", 1000)+"\r\n", false, "hello", errBadResponse)
	f("extension flood over chunks", chunked+strings.Repeat("1;"+strings.Repeat("x", 2000)+"\r\nh\r\n", 100)+"0\r\n\r\n", false, strings.Repeat("h", 8), errBadResponse)
}

// TestLegClientWrite: a client that cannot be written to ends the exchange.
func TestLegClientWrite(t *testing.T) {
	e := startRawEngine(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n"+string(pattern(300_000))))
	p := newPool(e.address, &upstreamOptions{})
	defer p.close()
	c := newLegClient("GET")
	c.sink.failAfter = 100_000
	if _, err := c.do(p, nil, nil); err != errClientWrite {
		t.Fatal(err)
	}
	if open, _ := p.counts(); open != 0 {
		t.Errorf("%d connections are left", open)
	}
}

// TestLegResponseHeader: the head is what fasthttp makes of it.
func TestLegResponseHeader(t *testing.T) {
	e := startRawEngine(t, answering("HTTP/1.1 429 Slow Down\r\nretry-after: 3\r\nSet-Cookie: a=b\r\nX: 1\r\nX: 2\r\nContent-Length: 0\r\n\r\n"))
	p := newPool(e.address, &upstreamOptions{})
	defer p.close()
	c := newLegClient("GET")
	if _, err := c.do(p, nil, nil); err != nil {
		t.Fatal(err)
	}
	if c.resp.StatusCode() != fasthttp.StatusTooManyRequests || string(c.resp.Peek("Retry-After")) != "3" ||
		len(c.resp.PeekAll("X")) != 2 || string(c.resp.StatusMessage()) != "Slow Down" {
		t.Errorf("head %s", &c.resp)
	}
}
