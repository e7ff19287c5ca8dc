package fastproxy

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// mostHeap samples the heap until stop, which returns the most.
func mostHeap() (stop func() uint64) {
	done, most := make(chan struct{}), make(chan uint64)
	go func() {
		var m runtime.MemStats
		var n uint64
		for {
			runtime.ReadMemStats(&m)
			n = max(n, m.HeapAlloc)
			select {
			case <-done:
				most <- n
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() uint64 { close(done); return <-most }
}

// floodHeap is how much the heap may grow in a flood, client and engine included.
const floodHeap = 64 << 20

// headerFlood is a request whose head is too much, and what becomes of it: a
// status, "reset", or "closed" with the connection.
type headerFlood struct {
	name string
	send func(c *stormClient) (stream uint32)
	want []string
}

// repeated is a field n times.
func repeated(n int, name, value string) (fields []string) {
	for range n {
		fields = append(fields, name, value)
	}
	return fields
}

// openSplit sends a head in frames that the protocol allows.
func (c *stormClient) openSplit(block []byte) uint32 {
	const frame = 16 << 10
	id := c.next
	c.next += 2
	c.mu.Lock()
	c.streams[id] = &stormStream{}
	c.mu.Unlock()
	first := block[:min(frame, len(block))]
	block = block[len(first):]
	c.send(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: true, EndHeaders: len(block) == 0}))
	for len(block) > 0 {
		next := block[:min(frame, len(block))]
		block = block[len(next):]
		c.send(c.framer.WriteContinuation(id, len(block) == 0, next))
	}
	return id
}

var headerFloods = []headerFlood{
	{"many small fields", func(c *stormClient) uint32 {
		return c.openSplit(c.encode("GET", "/x", repeated(3000, "x-a", "1")...))
	}, []string{"431"}},
	{"one large field", func(c *stormClient) uint32 {
		return c.openSplit(c.encode("GET", "/x", "x-a", strings.Repeat("v", 100<<10)))
	}, []string{"431", "closed"}},
	{"one field 300 times", func(c *stormClient) uint32 {
		return c.openSplit(c.encode("GET", "/x", repeated(300, "x-a", "1")...))
	}, []string{"431"}},
	{"a large field by its index", func(c *stormClient) uint32 {
		return c.openSplit(c.encode("GET", "/x", repeated(15_000, "x-a", strings.Repeat("v", 3500))...))
	}, []string{"431", "closed"}},
	{"a table size that was not offered", func(c *stormClient) uint32 {
		return c.openSplit(append([]byte("\x3f\xe1\xff\xff\x03"), c.encode("GET", "/x")...))
	}, []string{"closed"}},
	{"CONTINUATION without end", func(c *stormClient) uint32 {
		id := c.next
		c.send(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode("GET", "/x"), EndStream: true}))
		fill := c.encode("GET", "/x", repeated(100, "x-a", "v")...)[60:] // past the pseudo fields
		for n := 0; n < 64<<20 && c.failed == nil; n += len(fill) {
			c.send(c.framer.WriteContinuation(id, false, fill))
		}
		return id
	}, []string{"closed"}},
	{"empty CONTINUATION", func(c *stormClient) uint32 {
		id := c.next
		c.mu.Lock()
		c.streams[id] = &stormStream{}
		c.mu.Unlock()
		c.send(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode("GET", "/x"), EndStream: true}))
		for n := 0; n < stormScale(50_000) && c.failed == nil; n++ {
			c.send(c.framer.WriteContinuation(id, false, nil))
		}
		c.send(c.framer.WriteContinuation(id, true, nil))
		return id
	}, []string{"200", "closed"}},
	{"large trailers", func(c *stormClient) uint32 {
		id := c.open("POST", "/x", false)
		c.block.Reset()
		for range 3000 {
			c.enc.WriteField(hpack.HeaderField{Name: "x-a", Value: "1"})
		}
		c.send(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndStream: true, EndHeaders: true}))
		return id
	}, []string{"reset", "closed"}},
	{"Host beside another authority", func(c *stormClient) uint32 {
		return c.open("GET", "/x", true, "host", "elsewhere.test")
	}, []string{"400"}},
	{"Host twice", func(c *stormClient) uint32 {
		return c.open("GET", "/x", true, "host", c.host, "host", "elsewhere.test")
	}, []string{"400"}},
	{"Host as the authority", func(c *stormClient) uint32 {
		return c.open("GET", "/x", true, "host", c.host)
	}, []string{"200"}},
}

// TestH2HeaderFloods: heads that are too much in every way end with the request
// or the connection, in bounded memory, and reach no engine.
func TestH2HeaderFloods(t *testing.T) {
	engine := &countingEngine{}
	p, fronts := stormProxy(t, engine, nil)
	before := watchResources(t)
	peak := mostHeap()
	for _, f := range h2Fronts(fronts) {
		for _, flood := range headerFloods {
			t.Run(f.name+"/"+flood.name, func(t *testing.T) {
				begun := engine.begun.Load()
				c := dialStorm(t, f.url, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 1 << 30})
				defer c.conn.Close()
				c.watch()
				id := flood.send(c)
				eventually(t, "the request has an outcome", func() bool { return c.over(id) != "" })
				got := c.over(id)
				ok := false
				for _, w := range flood.want {
					ok = ok || got == w
				}
				if !ok {
					t.Errorf("%s (GOAWAY %s), want %v", got, c.code(), flood.want)
				}
				if n := engine.begun.Load() - begun; got != "200" && n > 0 && !strings.Contains(flood.name, "trailers") {
					t.Errorf("the engine got %d requests", n)
				}
			})
		}
	}
	grown := int64(peak()) - int64(before.heap)
	t.Logf("the heap grew by %d KB at most", grown>>10)
	if grown > floodHeap {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	eventually(t, "the ledger is zero", func() bool { return p.loads() == 0 })
	before.check(t, p)
}

// controlFloods are frames that ask for little, and cost the sender nothing. Each
// sends one frame; stream is an upload that is going on.
var controlFloods = []struct {
	name string
	send func(c *stormClient, stream uint32) error
}{
	{"PING", func(c *stormClient, _ uint32) error { return c.framer.WritePing(false, [8]byte{1}) }},
	{"SETTINGS", func(c *stormClient, _ uint32) error {
		return c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65535})
	}},
	{"PRIORITY", func(c *stormClient, stream uint32) error {
		return c.framer.WritePriority(stream, http2.PriorityParam{Weight: 3})
	}},
	{"WINDOW_UPDATE of the stream", func(c *stormClient, stream uint32) error { return c.framer.WriteWindowUpdate(stream, 1) }},
	{"WINDOW_UPDATE of the connection", func(c *stormClient, _ uint32) error { return c.framer.WriteWindowUpdate(0, 1) }},
	{"empty DATA", func(c *stormClient, stream uint32) error { return c.framer.WriteData(stream, false, nil) }},
	{"padded empty DATA", func(c *stormClient, stream uint32) error {
		return c.framer.WriteDataPadded(stream, false, nil, make([]byte, 1))
	}},
	{"unknown frames", func(c *stormClient, stream uint32) error {
		return c.framer.WriteRawFrame(http2.FrameType(0x77), 0, stream, []byte("what"))
	}},
	{"RST_STREAM of an ended stream", func(c *stormClient, _ uint32) error { return c.framer.WriteRSTStream(1, http2.ErrCodeCancel) }},
}

// TestH2ControlFloods: floods of small frames, from clients that read what comes
// back and from clients that do not, end or pass; memory and goroutines are
// bounded, and others get their answers meanwhile.
func TestH2ControlFloods(t *testing.T) {
	engine := &countingEngine{}
	p, fronts := stormProxy(t, engine, nil)
	f := h2Fronts(fronts)[0]
	for _, flood := range controlFloods {
		for _, reads := range []bool{true, false} {
			t.Run(flood.name+"/reads "+strconv.FormatBool(reads), func(t *testing.T) {
				controlFlood(t, f, engine, reads, flood.send)
			})
		}
	}
	f.client.CloseIdleConnections()
	eventually(t, "the ledger is zero", func() bool { return p.loads() == 0 })
}

func controlFlood(t *testing.T, f protocolFront, engine *countingEngine, reads bool, send func(*stormClient, uint32) error) {
	before := watchResources(t)
	stop := bystander(t, f)
	c := dialStorm(t, f.url)
	defer c.conn.Close()
	if reads {
		c.watch()
	}
	c.open("GET", "/x", true)
	upload := c.open("POST", "/x", false)
	heap, goroutines := mostHeap(), mostGoroutines()
	total, sent := stormScale(30_000), 0
	for ; sent < total; sent++ {
		c.conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
		if !c.send(send(c, upload)) {
			break
		}
	}
	if sent == total && reads {
		c.send(c.framer.WriteData(upload, true, []byte("end")))
		eventually(t, "the upload has an outcome", func() bool { return c.over(upload) != "" })
		if got := c.over(upload); got == "200" && string(c.stream(upload).body) != "end" {
			t.Errorf("the upload came back as %q", c.stream(upload).body)
		}
	}
	stop()
	grown, peak := int64(heap())-int64(before.heap), goroutines()-before.goroutines
	t.Logf("%d frames, %v, GOAWAY %s; heap grew by %d KB at most, %d more goroutines", sent, c.failed, c.code(), grown>>10, peak)
	if grown > floodHeap {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if peak > 100 {
		t.Errorf("%d goroutines more than before", peak)
	}
}
