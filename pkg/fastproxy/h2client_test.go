package fastproxy

import (
	"bytes"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// stormClient is one HTTP/2 connection that sends frames one by one, as no
// library would. One goroutine sends; watch reads beside it.
type stormClient struct {
	t      testing.TB
	conn   net.Conn
	framer *http2.Framer
	enc    *hpack.Encoder
	block  bytes.Buffer
	scheme string
	host   string
	next   uint32 // the next stream
	failed error  // the first of sending

	mu      sync.Mutex
	streams map[uint32]*stormStream
	goAway  *http2.ErrCode
	frames  map[http2.FrameType]int
	ended   chan struct{} // watch has returned: the connection is over
}

// stormStream is what came back on a stream.
type stormStream struct {
	status string
	body   []byte
	ended  bool
	reset  *http2.ErrCode
}

// dialStorm connects to a front and sends preface and settings; nothing is read
// until watch.
func dialStorm(t testing.TB, url string, settings ...http2.Setting) *stormClient {
	t.Helper()
	c := &stormClient{t: t, next: 1, streams: map[uint32]*stormStream{}, frames: map[http2.FrameType]int{}, ended: make(chan struct{})}
	c.scheme, c.host, _ = strings.Cut(url, "://")
	conn, err := net.DialTimeout("tcp", c.host, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if c.scheme == "https" {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	c.conn = conn
	c.framer = http2.NewFramer(conn, conn)
	c.framer.AllowIllegalWrites = true
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.enc = hpack.NewEncoder(&c.block)
	if _, err := conn.Write(http2Preface); err != nil {
		t.Fatal(err)
	}
	c.send(c.framer.WriteSettings(settings...))
	return c
}

// send notes the outcome of sending; false: the connection takes no more.
func (c *stormClient) send(err error) bool {
	if err != nil && c.failed == nil {
		c.failed = err
	}
	return err == nil
}

// encode returns a header block of a request to path with further fields.
func (c *stormClient) encode(method, path string, fields ...string) []byte {
	c.block.Reset()
	pairs := append([]string{":method", method, ":scheme", c.scheme, ":path", path, ":authority", c.host}, fields...)
	for i := 0; i < len(pairs); i += 2 {
		c.enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return c.block.Bytes()
}

// open sends the head of a request and returns its stream; 0: it could not.
func (c *stormClient) open(method, path string, end bool, fields ...string) uint32 {
	id := c.next
	c.next += 2
	c.mu.Lock()
	c.streams[id] = &stormStream{}
	c.mu.Unlock()
	if !c.send(c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: c.encode(method, path, fields...), EndHeaders: true, EndStream: end,
	})) {
		return 0
	}
	return id
}

func (c *stormClient) reset(id uint32) bool {
	c.mu.Lock()
	delete(c.streams, id)
	c.mu.Unlock()
	return c.send(c.framer.WriteRSTStream(id, http2.ErrCodeCancel))
}

// watch reads until the connection ends. It acknowledges nothing and gives no
// window.
func (c *stormClient) watch() {
	go func() {
		defer close(c.ended)
		for {
			f, err := c.framer.ReadFrame()
			if err != nil {
				if _, stream := err.(http2.StreamError); stream {
					continue
				}
				return
			}
			c.note(f)
		}
	}()
}

func (c *stormClient) note(f http2.Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames[f.Header().Type]++
	if g, ok := f.(*http2.GoAwayFrame); ok {
		code := g.ErrCode
		c.goAway = &code
	}
	s := c.streams[f.Header().StreamID]
	if s == nil {
		return
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		if status := f.PseudoValue("status"); status != "" {
			s.status = status
		}
		s.ended = s.ended || f.StreamEnded()
	case *http2.DataFrame:
		s.body = append(s.body, f.Data()...)
		s.ended = s.ended || f.StreamEnded()
	case *http2.RSTStreamFrame:
		code := f.ErrCode
		s.reset = &code
	}
}

// stream is a copy of what came back on a stream so far.
func (c *stormClient) stream(id uint32) stormStream {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.streams[id]; s != nil {
		return *s
	}
	return stormStream{}
}

// over says whether a stream has come to an end, and how: "status", "reset", or
// "closed" with its connection; "": it has not.
func (c *stormClient) over(id uint32) string {
	select {
	case <-c.ended:
		return "closed"
	default:
	}
	switch s := c.stream(id); {
	case s.reset != nil:
		return "reset"
	case s.ended:
		return s.status
	}
	return ""
}

// outcomes counts the ends of the streams by kind.
func (c *stormClient) outcomes(counts map[string]int) {
	c.mu.Lock()
	ids := make([]uint32, 0, len(c.streams))
	for id := range c.streams {
		ids = append(ids, id)
	}
	c.mu.Unlock()
	for _, id := range ids {
		counts[c.over(id)]++
	}
}

// code is the error of the GOAWAY that came, or "none".
func (c *stormClient) code() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.goAway == nil {
		return "none"
	}
	return c.goAway.String()
}

// h2Fronts are the two ways to HTTP/2 of everyFront.
func h2Fronts(fronts []protocolFront) (h2 []protocolFront) {
	for _, f := range fronts {
		if f.http2 {
			h2 = append(h2, f)
		}
	}
	return h2
}

// count is how many messages were refused for a reason.
func (c *reasonCounters) count(reason string) (n int64) {
	c.each(func(r string, k int64) {
		if r == reason {
			n = k
		}
	})
	return n
}
