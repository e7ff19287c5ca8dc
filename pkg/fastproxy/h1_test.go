package fastproxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// TestH1CoreSees holds what the core gets to see of a message: parts, fields
// without framing, body.
func TestH1CoreSees(t *testing.T) {
	_, addr := testFront(t, &testCore{answer: echoCore}, nil)
	f := func(raw, want string) {
		t.Helper()
		c := dialFront(t, addr)
		sendRaw(t, c, raw)
		resp, body := readAnswer(t, bufio.NewReader(c), "GET")
		if resp.StatusCode != 200 || body != want {
			t.Errorf("%q:\n got %d %q\nwant 200 %q", raw, resp.StatusCode, body, want)
		}
	}
	f("GET /a%2Fb?x=1 HTTP/1.1\r\nHost: A:80\r\n\r\n",
		"GET|/a%2Fb?x=1|/a%2Fb|x=1|/a%2Fb|A:80|a|\nHost=A:80\n\n")
	f("POST /%61/../x HTTP/1.1\r\nHost: a\r\ncontent-length: 5\r\ncontent-type: a/b\r\nX-Two: 2\r\nx-one: 1\r\nx-one: 1b\r\n\r\nhello",
		"POST|/%61/../x|/%61/../x||/x|a|a|\nHost=a\nContent-Type=a/b\nX-Two=2\nX-One=1\nX-One=1b\n\nhello")
	f("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\nTE: trailers\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-T: 1\r\n\r\n",
		"POST|/|/||/|a|a|\nHost=a\nTe=trailers\n\nabcde")
	f("GET //x://y/z HTTP/1.1\r\nHost: a\r\n\r\n", "GET|//x://y/z|//x://y/z||//x://y/z|a|a|\nHost=a\n\n")
	f("GET http://B/c HTTP/1.1\r\nHost: a\r\n\r\n", "GET|/c|/c||/c|B|b|\nHost=a\n\n")
	f("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS|*|*||*|a|a|\nHost=a\n\n")
	f("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"GET|/|/||/|a|a|websocket\nHost=a\nConnection=Upgrade\nUpgrade=websocket\n\n")
	f("POST / HTTP/1.1\r\nHost: a\r\n\r\n", "POST|/|/||/|a|a|\nHost=a\n\n")
	f("GET / HTTP/1.0\r\n\r\n", "GET|/|/||/|||\n\n")
	f("FROB /x HTTP/1.1\r\nHost: a\r\nCookie: a=b; c\r\nCookie: d=e\r\n\r\n",
		"FROB|/x|/x||/x|a|a|\nHost=a\nCookie=a=b; c; d=e\n\n")
}

func TestH1Refused(t *testing.T) {
	tc := &testCore{answer: echoCore}
	f, addr := testFront(t, tc, nil)
	// What follows a refused message is never looked at.
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, raw := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"GET / HTTP/1.1\nHost: a\n\n" + smuggled,
		"GET / HTTP/1.1\r\nHost: a\r\n\n" + smuggled,
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc" + smuggled,
	} {
		got := exchangeRaw(t, addr, raw)
		if statusOf(got) != "400" || strings.Count(got, "HTTP/1.1") != 1 || !strings.Contains(got, "Connection: close\r\n") {
			t.Errorf("%q: %q", raw, got)
		}
	}
	if n := tc.begun.Load(); n != 0 {
		t.Errorf("the core saw %d requests", n)
	}
	total := int64(0)
	f.counters.refused.each(func(_ string, n int64) { total += n })
	if total != 4 {
		t.Errorf("%d refusals counted, want 4", total)
	}
}

func TestH1PipelineAndKeepAlive(t *testing.T) {
	_, addr := testFront(t, &testCore{answer: echoCore}, nil)
	c := dialFront(t, addr)
	br := bufio.NewReader(c)
	const n = 20
	var all strings.Builder
	for i := range n {
		body := strings.Repeat("x", i*100)
		if i%2 == 0 {
			fmt.Fprintf(&all, "POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", i, len(body), body)
		} else {
			fmt.Fprintf(&all, "POST /%d HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", i, len(body), body)
		}
	}
	go func() { _, _ = io.WriteString(c, all.String()) }()
	for i := range n {
		_, body := readAnswer(t, br, "POST")
		if !strings.HasPrefix(body, fmt.Sprintf("POST|/%d|", i)) || !strings.HasSuffix(body, "\n\n"+strings.Repeat("x", i*100)) {
			t.Fatalf("answer %d: %q", i, body)
		}
	}
	sendRaw(t, c, "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if resp, _ := readAnswer(t, br, "GET"); !resp.Close {
		t.Error("no Connection: close on the last answer")
	}
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("after the last answer: %v, want EOF", err)
	}
}

// TestH1SplitEverywhere sends messages in two pieces, cut at every byte.
func TestH1SplitEverywhere(t *testing.T) {
	_, addr := testFront(t, &testCore{answer: echoCore}, nil)
	for _, raw := range []string{
		"POST /x?y HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;e=f\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-T: v\r\n\r\n",
		"POST /x?y HTTP/1.1\r\nHost: a\r\nContent-Length: 13\r\n\r\nabc0123456789",
	} {
		c := dialFront(t, addr)
		br := bufio.NewReader(c)
		for cut := 1; cut < len(raw); cut++ {
			sendRaw(t, c, raw[:cut])
			time.Sleep(time.Millisecond)
			sendRaw(t, c, raw[cut:])
			_, body := readAnswer(t, br, "POST")
			if want := "POST|/x?y|/x|y|/x|a|a|\nHost=a\n\nabc0123456789"; body != want {
				t.Fatalf("cut at %d: got %q, want %q", cut, body, want)
			}
		}
	}
}

func TestH1HTTP10(t *testing.T) {
	tc := &testCore{answer: fixedCore("hi"), stream: func(_ *exchange, w flushWriter) (int64, error) {
		_, err := io.WriteString(w, "streamed")
		return 8, err
	}}
	_, addr := testFront(t, tc, nil)
	got := exchangeRaw(t, addr, "GET / HTTP/1.0\r\n\r\n")
	if !strings.HasSuffix(got, "\r\n\r\nhi") || !strings.Contains(got, "Content-Length: 2\r\n") || !strings.Contains(got, "Connection: close\r\n") {
		t.Errorf("plain: %q", got)
	}
	c := dialFront(t, addr)
	br := bufio.NewReader(c)
	for range 2 {
		sendRaw(t, c, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
		if resp, body := readAnswer(t, br, "GET"); body != "hi" || resp.Header.Get("Connection") != "keep-alive" {
			t.Errorf("keep-alive: %q %v", body, resp.Header)
		}
	}
	tc.answer = func(x *exchange) { x.resp.stream, x.resp.length = true, -1; x.resp.header.SetStatusCode(200) }
	sendRaw(t, c, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	all, err := io.ReadAll(br)
	if got := string(all); err != nil || strings.Contains(got, "chunked") || !strings.HasSuffix(got, "\r\n\r\nstreamed") || !strings.Contains(got, "Connection: close") {
		t.Errorf("stream of unknown length: %q %v", got, err)
	}
}

func TestH1Heads(t *testing.T) {
	tc := &testCore{}
	_, addr := testFront(t, tc, nil)
	f := func(method string, status int, fields map[string]string, body string, want ...string) {
		t.Helper()
		tc.answer = func(x *exchange) {
			raw := "HTTP/1.1 200 OK\r\n"
			for k, v := range fields {
				raw += k + ": " + v + "\r\n"
			}
			if err := (&responseHead{fields: x.resp.header}).parse([]byte(raw + "\r\n")); err != nil {
				panic(err)
			}
			x.resp.header.SetStatusMessage(nil)
			x.resp.header.SetStatusCode(status)
			x.resp.body = []byte(body)
		}
		got := exchangeRaw(t, addr, method+" / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		head, rest, _ := strings.Cut(got, "\r\n\r\n")
		wantBody := body
		if method == "HEAD" || status == 204 || status == 304 {
			wantBody = ""
		}
		if rest != wantBody {
			t.Errorf("%s %d: body %q, want %q", method, status, rest, wantBody)
		}
		for _, w := range want {
			absent := strings.HasPrefix(w, "!")
			if strings.Contains(head+"\r\n", strings.TrimPrefix(w, "!")) == absent {
				t.Errorf("%s %d: %q, want %q", method, status, head, w)
			}
		}
	}
	f("GET", 200, nil, "", "HTTP/1.1 200 OK\r\n", "Content-Length: 0\r\n", "\r\nDate: ", "!Server:", "!Content-Type:")
	f("GET", 200, map[string]string{"Date": "then", "Server": "s"}, "x", "Date: then\r\n", "Server: s\r\n", "Content-Length: 1\r\n")
	f("GET", 200, map[string]string{"X-A": "b"}, "x", "X-A: b\r\n", "!chunked")
	f("HEAD", 200, nil, "hello", "Content-Length: 5\r\n")
	f("HEAD", 200, map[string]string{"Content-Length": "77"}, "", "Content-Length: 77\r\n")
	f("HEAD", 200, nil, "", "!Content-Length")
	f("GET", 204, map[string]string{"Content-Length": "0"}, "", "HTTP/1.1 204 No Content\r\n", "!Content-Length", "!chunked")
	f("GET", 304, map[string]string{"Content-Length": "9", "Etag": "e"}, "", "Content-Length: 9\r\n", "Etag: e\r\n")
	f("GET", 418, nil, "tea", "HTTP/1.1 418 I'm a teapot\r\n")
	f("GET", 499, nil, "", "HTTP/1.1 499 ")
	f("GET", 200, map[string]string{"Connection": "keep-alive", "Keep-Alive": "x", "Transfer-Encoding": "chunked"}, "x",
		"Connection: close\r\n", "!keep-alive", "!chunked", "!Keep-Alive")
	f("GET", 200, nil, strings.Repeat("b", 100<<10), "Content-Length: 102400\r\n")
}

// TestH1Stream holds that each flush reaches the client by itself and that
// framing and trailers are right.
func TestH1Stream(t *testing.T) {
	step := make(chan string)
	tc := &testCore{
		answer: func(x *exchange) {
			x.resp.header.SetStatusCode(200)
			x.resp.stream, x.resp.length = true, -1
		},
		stream: func(_ *exchange, w flushWriter) (n int64, err error) {
			for s := range step {
				m, err := io.WriteString(w, s)
				if err == nil {
					err = w.Flush()
				}
				if n += int64(m); err != nil {
					return n, err
				}
				if s == "end" {
					break
				}
			}
			return n, nil
		},
		trail: func(_ *exchange, visit func(name, value []byte)) {
			visit([]byte("X-Sum"), []byte("7"))
			visit([]byte("Content-Length"), []byte("7"))
		},
	}
	_, addr := testFront(t, tc, nil)
	c := dialFront(t, addr)
	br := bufio.NewReader(c)
	for range 2 {
		sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		for { // the head comes before the first event
			line, err := br.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line == "\r\n" {
				break
			}
		}
		for _, s := range []string{"one", strings.Repeat("2", 300), "end"} {
			step <- s
			want := fmt.Sprintf("%x\r\n%s\r\n", len(s), s)
			got := make([]byte, len(want))
			if _, err := io.ReadFull(br, got); err != nil || string(got) != want {
				t.Fatalf("got %q, %v; want %q", got, err, want)
			}
		}
		const last = "0\r\nX-Sum: 7\r\n\r\n"
		got := make([]byte, len(last))
		if _, err := io.ReadFull(br, got); err != nil || string(got) != last {
			t.Fatalf("end: %q, %v", got, err)
		}
	}
}

// TestH1StreamPieces holds that any sequence of writes and flushes arrives whole.
func TestH1StreamPieces(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	type plan struct {
		pieces []string
		length int64
	}
	var planned atomic.Pointer[plan]
	var current *plan // of the exchange that runs: an empty one is answered before it streams
	tc := &testCore{stream: func(_ *exchange, w flushWriter) (n int64, err error) {
		for i, p := range current.pieces {
			m, err := io.WriteString(w, p)
			if n += int64(m); err != nil {
				return n, err
			}
			if i%3 == 0 {
				if err := w.Flush(); err != nil {
					return n, err
				}
			}
		}
		return n, nil
	}}
	tc.answer = func(x *exchange) {
		x.resp.header.SetStatusCode(200)
		current = planned.Load()
		x.resp.stream, x.resp.length = true, current.length
	}
	_, addr := testFront(t, tc, nil)
	c := dialFront(t, addr)
	br := bufio.NewReader(c)
	for i := range 40 {
		var pieces []string
		for range r.IntN(10) {
			pieces = append(pieces, strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(1<<r.IntN(18))))
		}
		want := strings.Join(pieces, "")
		length := int64(-1)
		if i%2 == 0 {
			length = int64(len(want))
		}
		planned.Store(&plan{pieces, length})
		sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, body := readAnswer(t, br, "GET"); body != want {
			t.Fatalf("round %d: got %d bytes, want %d", i, len(body), len(want))
		}
	}
}

// TestH1Cut holds that an answer that breaks off looks broken, and that all of
// it that came is passed on.
func TestH1Cut(t *testing.T) {
	var length int64
	tc := &testCore{stream: func(_ *exchange, w flushWriter) (int64, error) {
		n, _ := io.WriteString(w, "part")
		return int64(n), errUpstreamCut
	}}
	tc.answer = func(x *exchange) {
		x.resp.header.SetStatusCode(200)
		x.resp.stream, x.resp.length = true, length
	}
	_, addr := testFront(t, tc, nil)
	for _, length = range []int64{-1, 100} {
		c := dialFront(t, addr)
		sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if string(body) != "part" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("length %d: %q, %v", length, body, err)
		}
	}
	// HTTP/1.0: only a reset tells.
	length = -1
	c := dialFront(t, addr)
	sendRaw(t, c, "GET / HTTP/1.0\r\n\r\n")
	if _, err := io.ReadAll(c); err == nil {
		t.Error("HTTP/1.0: the cut answer looks complete")
	}
	// More than was declared never goes out; less is a cut.
	tc.stream = func(_ *exchange, w flushWriter) (int64, error) {
		n, err := io.WriteString(w, "too much")
		return int64(n), err
	}
	length = 3
	if got := exchangeRaw(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); strings.Contains(got, "too") {
		t.Errorf("overrun: %q", got)
	}
}

func TestH1Continue(t *testing.T) {
	tc := &testCore{answer: echoCore}
	_, addr := testFront(t, tc, nil)
	const head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
	c := dialFront(t, addr)
	br := bufio.NewReader(c)
	for range 2 {
		sendRaw(t, c, head)
		line, err := br.ReadString('\n')
		if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		_, _ = br.ReadString('\n')
		sendRaw(t, c, "body")
		if _, body := readAnswer(t, br, "POST"); !strings.HasSuffix(body, "\n\nbody") {
			t.Errorf("got %q", body)
		}
	}
	// A client that does not wait is not told to go on.
	sendRaw(t, c, head+"body")
	if resp, body := readAnswer(t, br, "POST"); resp.StatusCode != 200 || !strings.HasSuffix(body, "\n\nbody") {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
	// An answer that needs no body is the final one, without 100.
	tc.answer = func(x *exchange) { x.resp.header.SetStatusCode(401) }
	if got := exchangeRaw(t, addr, head); statusOf(got) != "401" || strings.Contains(got, "100 Continue") || !strings.Contains(got, "Connection: close") {
		t.Errorf("got %q", got)
	}
}

// TestH1UnreadBody holds that an unread body is never taken for a request.
func TestH1UnreadBody(t *testing.T) {
	_, addr := testFront(t, &testCore{answer: fixedCore("ok")}, nil)
	c := dialFront(t, addr)
	br := bufio.NewReader(c)
	const inner = "GET /inner HTTP/1.1\r\nHost: a\r\n\r\n"
	sendRaw(t, c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(inner), inner))
	sendRaw(t, c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(inner), inner))
	sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	all, err := io.ReadAll(br)
	if n := strings.Count(string(all), "HTTP/1.1 200"); err != nil || n != 3 {
		t.Errorf("%d answers, %v: %q", n, err, all)
	}
	// Too much to read away: answered, then closed.
	c = dialFront(t, addr)
	sendRaw(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n")
	go func() { _, _ = io.Copy(c, io.LimitReader(zeroReader{}, 1<<20)) }()
	resp, body := readAnswer(t, bufio.NewReader(c), "POST")
	if body != "ok" || !resp.Close {
		t.Errorf("got %q, close %v", body, resp.Close)
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestH1BrokenBodies(t *testing.T) {
	got := make(chan error, 1)
	tc := &testCore{answer: func(x *exchange) {
		_, err := io.Copy(io.Discard, coreBody{x.req.body})
		got <- err
		x.resp.header.SetStatusCode(400)
	}}
	_, addr := testFront(t, tc, func(o *Options) { o.Timeouts.Body = 200 * time.Millisecond })
	const chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	f := func(raw string, want error) {
		t.Helper()
		c := dialFront(t, addr)
		sendRaw(t, c, raw)
		if want == errClientGone {
			_ = c.CloseWrite()
		}
		select {
		case err := <-got:
			if err != want {
				t.Errorf("%q: %v, want %v", raw, err, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%q: the core hangs", raw)
		}
	}
	f("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc", errClientGone)
	f("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc", errBodyTimeout)
	f(chunked+"5\r\nab", errClientGone)
	f(chunked+"5\r\nab", errBodyTimeout)
	f(chunked+"5\r\nabcde\r\n", errClientGone)
	f(chunked+"5\r\nabcde\r\n0\r\n", errClientGone)
	f(chunked, errClientGone)
	for _, bad := range []string{
		"0x3\r\nabc\r\n0\r\n\r\n", "-3\r\nabc\r\n0\r\n\r\n", "+3\r\n", "g\r\n", "\r\n", " 3\r\nabc\r\n", "3 \r\nabc\r\n",
		"3 ;ext\r\nabc\r\n", "3\nabc\r\n0\r\n\r\n", "3\r\nabcd\r\n", "3\r\nabc\n0\r\n\r\n", "3\r\nabc0\r\n\r\n",
		"1234567890abcdef\r\n", "ffffffffffffffffff\r\n", "3;a\rb\r\nabc\r\n0\r\n\r\n", "3;a\x00\r\nabc\r\n0\r\n\r\n",
		"0\r\nno colon\r\n\r\n", "0\r\nbad name : x\r\n\r\n", "0\r\n x: folded\r\n\r\n", "0\nX: y\r\n\r\n",
		"3;" + strings.Repeat("x", 5000) + "\r\nabc\r\n0\r\n\r\n",
		"0\r\n" + strings.Repeat("X: y\r\n", 2000) + "\r\n",
		strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\na\r\n", 40) + "0\r\n\r\n",
	} {
		f(chunked+bad, errBadBody)
	}
}

// TestH1BodyWhole holds that a body that came with its head is lent, whole.
func TestH1BodyWhole(t *testing.T) {
	var length, lent atomic.Int64
	tc := &testCore{answer: func(x *exchange) {
		length.Store(x.req.body.Len())
		whole := append([]byte(nil), x.req.body.Whole()...)
		lent.Store(int64(len(whole)))
		rest, err := io.ReadAll(coreBody{x.req.body})
		if err != nil || len(whole) > 0 && len(rest) > 0 {
			x.resp.header.SetStatusCode(500)
			return
		}
		x.resp.header.SetStatusCode(200)
		x.resp.body = append(append([]byte(nil), whole...), rest...)
	}}
	_, addr := testFront(t, tc, nil)
	c := dialFront(t, addr)
	br := bufio.NewReader(c)
	for _, n := range []int{0, 1, 100, 4000, 8000, 9000, 100000} {
		want := strings.Repeat("w", n)
		sendRaw(t, c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", n, want))
		if resp, body := readAnswer(t, br, "POST"); body != want || resp.StatusCode != 200 || length.Load() != int64(n) {
			t.Errorf("%d bytes: got %d of %d, status %d", n, len(body), length.Load(), resp.StatusCode)
		}
		if n > 0 && n < 4000 && lent.Load() != int64(n) {
			t.Errorf("%d bytes were not lent", n)
		}
	}
}

func TestH1BigHeads(t *testing.T) {
	_, addr := testFront(t, &testCore{answer: echoCore}, nil)
	c := dialFront(t, addr)
	br := bufio.NewReader(c)
	for _, n := range []int{100, 5 << 10, 7 << 10, 100, 60 << 10, 100, 30 << 10, 63 << 10} {
		v := strings.Repeat("v", n)
		sendRaw(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX-Big: "+v+"\r\n\r\nabc")
		if resp, body := readAnswer(t, br, "POST"); resp.StatusCode != 200 || !strings.Contains(body, "X-Big="+v+"\n") || !strings.HasSuffix(body, "\n\nabc") {
			t.Fatalf("%d bytes: %d, %d bytes back", n, resp.StatusCode, len(body))
		}
	}
	// Two of them in one piece.
	two := "GET / HTTP/1.1\r\nHost: a\r\nX-Big: " + strings.Repeat("v", 20<<10) + "\r\n\r\n"
	go func() { _, _ = io.WriteString(c, two+two+"GET /small HTTP/1.1\r\nHost: a\r\n\r\n") }()
	for range 3 {
		readAnswer(t, br, "GET")
	}
	for raw, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("v", 70<<10) + "\r\n\r\n":      "431",
		"GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 300) + "\r\n":         "431",
		"GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 20000) + "\r\n":       "431",
		"GET /" + strings.Repeat("p", 70<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n":             "414",
		"GET /" + strings.Repeat("p", 50<<10) + " HTTP/1.1\r\nHost: a\r\n\r\nGET / HT\n\n": "200",
	} {
		if got := exchangeRaw(t, addr, raw); statusOf(got) != want {
			t.Errorf("%q…: %q, want %s", raw[:40], statusOf(got), want)
		}
	}
}

func TestH1Timeouts(t *testing.T) {
	_, addr := testFront(t, &testCore{answer: fixedCore("ok")}, func(o *Options) {
		o.Timeouts.Header, o.Timeouts.ClientIdle = 200*time.Millisecond, 400*time.Millisecond
	})
	if got := exchangeRaw(t, addr, ""); got != "" {
		t.Errorf("silent: %q", got)
	}
	if got := exchangeRaw(t, addr, "GET / HTTP/1.1\r\nHo"); statusOf(got) != "408" {
		t.Errorf("slow head: %q", got)
	}
	// Who never says a word gets no more time than a head does.
	_, patient := testFront(t, &testCore{answer: fixedCore("ok")}, func(o *Options) { o.Timeouts.Header = 200 * time.Millisecond })
	if got := exchangeRaw(t, patient, ""); got != "" {
		t.Errorf("silent: %q", got)
	}
	// A trickle does not extend the time for a head.
	c := dialFront(t, addr)
	go func(c net.Conn) {
		for range 100 {
			if _, err := io.WriteString(c, "X"); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}(c)
	begun := time.Now()
	all, _ := io.ReadAll(c)
	if statusOf(string(all)) != "408" || time.Since(begun) > 5*time.Second {
		t.Errorf("trickle: %q after %v", all, time.Since(begun))
	}
	c = dialFront(t, addr)
	sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	all, err := io.ReadAll(c)
	if err != nil || statusOf(string(all)) != "200" || strings.Contains(string(all), "408") {
		t.Errorf("idle: %q, %v", all, err)
	}
}

func TestH1WriteStall(t *testing.T) {
	ended := make(chan error, 1)
	tc := &testCore{
		answer: func(x *exchange) { x.resp.header.SetStatusCode(200); x.resp.stream, x.resp.length = true, -1 },
		stream: func(_ *exchange, w flushWriter) (n int64, err error) {
			b := make([]byte, 64<<10)
			for range 4096 {
				if _, err = w.Write(b); err == nil {
					err = w.Flush()
				}
				if err != nil {
					break
				}
			}
			ended <- err
			return 0, err
		},
	}
	_, addr := testFront(t, tc, func(o *Options) { o.Timeouts.WriteStall = 300 * time.Millisecond })
	c := dialFront(t, addr)
	sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	select {
	case err := <-ended:
		if err != errClientWrite {
			t.Errorf("got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a client that does not read holds the exchange for ever")
	}
}

func TestH1Panics(t *testing.T) {
	tc := &testCore{answer: func(x *exchange) {
		if string(x.req.path) == "/boom" {
			panic("boom")
		}
		x.resp.header.SetStatusCode(200)
		x.resp.stream, x.resp.length = true, -1
	}, stream: func(_ *exchange, w flushWriter) (int64, error) {
		_, _ = io.WriteString(w, "part")
		panic("late boom")
	}}
	f, addr := testFront(t, tc, nil)
	if got := exchangeRaw(t, addr, "GET /boom HTTP/1.1\r\nHost: a\r\n\r\n"); statusOf(got) != "500" || strings.Contains(got, "boom") {
		t.Errorf("got %q", got)
	}
	if got := exchangeRaw(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); statusOf(got) != "200" || strings.Contains(got, "0\r\n\r\n") {
		t.Errorf("got %q", got)
	}
	if n := f.counters.panics.Load(); n != 2 {
		t.Errorf("%d panics counted", n)
	}
}

func TestH1Tunnel(t *testing.T) {
	tc := &testCore{answer: func(x *exchange) {
		x.resp.header.SetStatusCode(101)
		x.resp.header.Set("Connection", "Upgrade")
		x.resp.header.SetBytesV("Upgrade", x.req.upgrade)
		x.tunnel = true
	}, tunnel: func(_ *exchange, c net.Conn, buffered []byte) {
		_, _ = c.Write(buffered)
		_, _ = io.Copy(c, c)
	}}
	_, addr := testFront(t, tc, nil)
	c := dialFront(t, addr)
	sendRaw(t, c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly")
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "websocket" || resp.Header.Get("Connection") != "Upgrade" {
		t.Fatalf("%v %v", resp, err)
	}
	sendRaw(t, c, " late")
	_ = c.CloseWrite()
	all, err := io.ReadAll(br)
	if string(all) != "early late" || err != nil {
		t.Errorf("got %q, %v", all, err)
	}
}

func TestH1Interim(t *testing.T) {
	tc := &testCore{answer: func(x *exchange) {
		if x.interim != nil {
			x.resp.header.SetStatusCode(103)
			x.resp.header.Set("Link", "</a>; rel=preload")
			x.interim.inform(x.resp.header)
			x.resp.header.Reset()
		}
		x.resp.header.SetStatusCode(200)
		x.resp.body = []byte("ok")
	}}
	_, addr := testFront(t, tc, nil)
	got := exchangeRaw(t, addr, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\n") {
		t.Errorf("got %q", got)
	}
	if got := exchangeRaw(t, addr, "GET / HTTP/1.0\r\n\r\n"); statusOf(got) != "200" {
		t.Errorf("HTTP/1.0: %q", got)
	}
}

// TestH1InterruptedBody holds that a connection whose body was interrupted too
// late to matter goes on.
func TestH1InterruptedBody(t *testing.T) {
	_, addr := testFront(t, &testCore{answer: func(x *exchange) {
		_, err := io.Copy(io.Discard, coreBody{x.req.body})
		if b, ok := x.req.body.(interruptibleBody); ok {
			b.interrupt()
		}
		x.resp.header.SetStatusCode(200)
		if err != nil {
			x.resp.header.SetStatusCode(500)
		}
	}}, nil)
	c := dialFront(t, addr)
	br := bufio.NewReader(c)
	for range 3 {
		sendRaw(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo")
		time.Sleep(5 * time.Millisecond)
		sendRaw(t, c, "dy")
		if resp, _ := readAnswer(t, br, "POST"); resp.StatusCode != 200 || resp.Close {
			t.Fatalf("%v", resp)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestH1ExpectHavingSent: a client that has sent some of its body along with
// Expect gets no 100, which an upload could only write into the answer that
// already goes out beside it.
func TestH1ExpectHavingSent(t *testing.T) {
	engine := startRawEngine(t, func(c *net.TCPConn, _ int) {
		br := bufio.NewReader(c)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"+strings.Repeat("1\r\nx\r\n", 200))
		for sent := ""; !strings.HasSuffix(sent, "\r\n0\r\n\r\n"); { // the body's end
			line, err := br.ReadString('\n')
			if err != nil {
				return
			}
			sent += line
		}
		io.WriteString(c, "0\r\n\r\n")
	})
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyLeastLoaded, engine.address), port, nil)
	const head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
	for range scaled(200) {
		c := dialFront(t, p.address())
		sendRaw(t, c, head+"1\r\na\r\n1\r\nb\r\n")
		br := bufio.NewReader(c)
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v, %v", resp, err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 200)); err != nil {
			t.Fatal(err)
		}
		sendRaw(t, c, "0\r\n\r\n")
		if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
			t.Fatalf("the answer goes on with %q, %v", rest, err)
		}
		c.Close()
	}
}
