package fastproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// h2cClient speaks HTTP/2 in clear text, without upgrade.
func h2cClient(t testing.TB) *http.Client {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &p, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

func TestH2CoreSees(t *testing.T) {
	_, addr := testFront(t, &testCore{answer: echoCore}, nil)
	c := h2cClient(t)
	f := func(method, path, body string, want string) {
		t.Helper()
		req, err := http.NewRequest(method, "http://"+addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "A.example:80"
		req.Header.Set("User-Agent", "t")
		req.Header.Set("X-One", "1")
		req.Header.Add("X-One", "1b")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil || resp.ProtoMajor != 2 || resp.StatusCode != 200 {
			t.Fatalf("%v %v", resp, err)
		}
		if string(got) != want {
			t.Errorf("%s %s:\n got %q\nwant %q", method, path, got, want)
		}
	}
	f("GET", "/a%2Fb/../c?x=1", "", "GET|/a%2Fb/../c?x=1|/a%2Fb/../c|x=1|/c|A.example:80|a.example|\nHost=A.example:80\nUser-Agent=t\nX-One=1\nX-One=1b\n\n")
	f("POST", "/", "hello", "POST|/|/||/|A.example:80|a.example|\nHost=A.example:80\nUser-Agent=t\nX-One=1\nX-One=1b\n\nhello")
}

func TestH2Refused(t *testing.T) {
	tc := &testCore{answer: echoCore}
	_, addr := testFront(t, tc, nil)
	for _, raw := range [][4]string{ // method, path, authority, status
		{"GET", "/a b", "a", "400"},
		{"GET", "/a%00", "a", "400"},
		{"G T", "/", "a", "400"},
		{"GET", "/", "a@b", "400"},
		{"GET", "/", "a,b", "400"},
		{"GET", "/#x", "a", "400"},
	} {
		c := newH2raw(t, addr)
		got := c.request(raw[0], raw[1], raw[2])
		if got != raw[3] && got != "reset" {
			t.Errorf("%q: %s, want %s or a reset", raw[:3], got, raw[3])
		}
	}
	for _, length := range []string{"3, 3", "+3", "-1", "3x", "18446744073709551619", "3"} {
		got := newH2raw(t, addr).request("POST", "/", "a", [2]string{"content-length", length})
		if got != "400" && got != "reset" {
			t.Errorf("content-length %q: %s, want 400 or a reset", length, got)
		}
	}
	if n := tc.begun.Load(); n != 0 {
		t.Errorf("the core saw %d of them", n)
	}
}

func TestH2Answers(t *testing.T) {
	tc := &testCore{
		stream: func(_ *exchange, w flushWriter) (n int64, err error) {
			for _, s := range []string{"one", "two"} {
				m, err := io.WriteString(w, s)
				if n += int64(m); err == nil {
					err = w.Flush()
				}
				if err != nil {
					return n, err
				}
			}
			return n, nil
		},
		trail: func(_ *exchange, visit func(name, value []byte)) { visit([]byte("Grpc-Status"), []byte("0")) },
	}
	_, addr := testFront(t, tc, nil)
	c := h2cClient(t)
	get := func(method string) (*http.Response, string, error) {
		t.Helper()
		req, _ := http.NewRequest(method, "http://"+addr+"/", nil)
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp, string(body), err
	}
	tc.answer = func(x *exchange) {
		x.resp.header.SetStatusCode(200)
		x.resp.header.Set("Connection", "keep-alive")
		x.resp.stream, x.resp.length = true, -1
	}
	resp, body, err := get("GET")
	if err != nil || body != "onetwo" || resp.Trailer.Get("Grpc-Status") != "0" || resp.Header.Get("Content-Type") != "" {
		t.Errorf("stream: %q %v trailer %v header %v", body, err, resp.Trailer, resp.Header)
	}
	tc.answer = func(x *exchange) { x.resp.header.SetStatusCode(200); x.resp.stream, x.resp.length = true, 10 }
	if _, body, err = get("GET"); err == nil || body != "onetwo" {
		t.Errorf("short of its length: %q %v", body, err)
	}
	tc.answer = func(x *exchange) { x.resp.header.SetStatusCode(404); x.resp.body = []byte("none") }
	if resp, body, err = get("GET"); err != nil || body != "none" || resp.StatusCode != 404 || resp.ContentLength != 4 {
		t.Errorf("complete: %v %q %v", resp, body, err)
	}
	if resp, body, err = get("HEAD"); err != nil || body != "" || resp.ContentLength != 4 {
		t.Errorf("HEAD: %v %q %v", resp, body, err)
	}
	tc.answer = func(x *exchange) { x.resp.header.SetStatusCode(200); x.resp.stream, x.resp.length = true, -1 }
	tc.stream = func(_ *exchange, w flushWriter) (int64, error) {
		n, _ := io.WriteString(w, "part")
		return int64(n), errUpstreamCut
	}
	if _, body, err = get("GET"); err == nil || body != "part" || errors.Is(err, io.EOF) {
		t.Errorf("cut: %q %v", body, err)
	}
	tc.answer = func(*exchange) { panic("boom") }
	if resp, body, _ = get("GET"); resp.StatusCode != 500 || strings.Contains(body, "boom") {
		t.Errorf("panic: %v %q", resp, body)
	}
	tc.answer = func(x *exchange) { x.resp.header.SetStatusCode(200); x.resp.stream, x.resp.length = true, -1 }
	tc.stream = func(_ *exchange, w flushWriter) (int64, error) { _, _ = io.WriteString(w, "p"); panic("boom") }
	if _, _, err = get("GET"); err == nil {
		t.Error("a panic within the body looks like its end")
	}
}

func TestH2Bodies(t *testing.T) {
	got := make(chan error, 4)
	tc := &testCore{answer: func(x *exchange) {
		n, err := io.Copy(io.Discard, coreBody{x.req.body})
		if err == nil && x.req.body.Len() >= 0 && n != x.req.body.Len() {
			err = io.ErrShortBuffer
		}
		got <- err
		x.resp.header.SetStatusCode(200)
	}}
	_, addr := testFront(t, tc, func(o *Options) { o.Timeouts.Body = 300 * time.Millisecond })
	c := h2cClient(t)
	post := func(body io.Reader, length int64, want error) {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+addr+"/", body)
		req.ContentLength = length
		if want == errClientGone {
			time.AfterFunc(100*time.Millisecond, cancel)
		}
		go func() {
			if resp, err := c.Do(req); err == nil {
				resp.Body.Close()
			}
		}()
		select {
		case err := <-got:
			if err != want {
				t.Errorf("length %d: %v, want %v", length, err, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the core hangs")
		}
	}
	big := strings.Repeat("b", 3<<20)
	post(strings.NewReader(big), int64(len(big)), nil)
	post(io.MultiReader(strings.NewReader(big)), -1, nil)
	hang, _ := io.Pipe()
	post(io.MultiReader(strings.NewReader("part"), hang), -1, errBodyTimeout)
	hang2, w := io.Pipe()
	go func() { _, _ = io.WriteString(w, "part") }()
	post(hang2, -1, errClientGone)
	short := newH2raw(t, addr)
	short.data = "ab"
	short.request("POST", "/", "a", [2]string{"content-length", "3"})
	if err := <-got; err != errBadBody {
		t.Errorf("two bytes of three: %v", err)
	}
}

// TestH2SlowCore holds that the time-out for bodies does not run while the core
// does not read.
func TestH2SlowCore(t *testing.T) {
	const wait = 100 * time.Millisecond
	tc := &testCore{answer: func(x *exchange) {
		var b [1]byte
		for {
			_, err := x.req.body.Read(b[:])
			if err == io.EOF {
				x.resp.header.SetStatusCode(200)
				return
			}
			if err != nil {
				x.resp.header.SetStatusCode(500)
				return
			}
			time.Sleep(2 * wait)
		}
	}}
	_, addr := testFront(t, tc, func(o *Options) { o.Timeouts.Body = wait })
	resp, err := h2cClient(t).Post("http://"+addr+"/", "a/b", strings.NewReader("four"))
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("%v %v", resp, err)
	}
	if resp != nil {
		resp.Body.Close()
	}
}

// h2raw is an HTTP/2 client that sends what no library does. It knows just
// enough of the protocol for one request (RFC 9113, RFC 7541).
type h2raw struct {
	t    testing.TB
	c    net.Conn
	data string // the body; empty: the request ends with its fields
}

func newH2raw(t testing.TB, addr string) *h2raw {
	h := &h2raw{t: t, c: dialFront(t, addr)}
	sendRaw(t, h.c, string(http2Preface)+"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	return h
}

// request returns the status of a request with literal pseudo fields and others, or
// "reset".
func (h *h2raw) request(method, path, authority string, fields ...[2]string) string {
	var b bytes.Buffer
	pseudo := [][2]string{{":method", method}, {":scheme", "http"}, {":path", path}, {":authority", authority}}
	for _, f := range append(pseudo, fields...) {
		b.WriteByte(0) // literal, not indexed, new name
		for _, s := range f {
			b.WriteByte(byte(len(s)))
			b.WriteString(s)
		}
	}
	head := []byte{0, 0, byte(b.Len()), 1, 5, 0, 0, 0, 1} // HEADERS, END_STREAM|END_HEADERS, stream 1
	if h.data != "" {
		head[4] = 4
		b.Write([]byte{0, 0, byte(len(h.data)), 0, 1, 0, 0, 0, 1}) // DATA, END_STREAM
		b.WriteString(h.data)
	}
	sendRaw(h.t, h.c, string(head)+b.String())
	for {
		var fh [9]byte
		if _, err := io.ReadFull(h.c, fh[:]); err != nil {
			h.t.Fatal(err)
		}
		payload := make([]byte, int(fh[0])<<16|int(fh[1])<<8|int(fh[2]))
		if _, err := io.ReadFull(h.c, payload); err != nil {
			h.t.Fatal(err)
		}
		switch fh[3] {
		case 1: // HEADERS: the status comes first
			return hpackStatus(payload)
		case 3, 7: // RST_STREAM, GOAWAY
			return "reset"
		}
	}
}

// hpackStatus reads the :status that an answer begins with: indexed, or a
// literal with an indexed name.
func hpackStatus(b []byte) string {
	static := map[byte]string{8: "200", 9: "204", 10: "206", 11: "304", 12: "400", 13: "404", 14: "500"}
	if len(b) > 0 && b[0]&0x80 != 0 {
		return static[b[0]&0x7f]
	}
	return "literal"
}
