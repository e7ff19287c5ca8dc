package fastproxy

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// quickEngine answers each request with answer, reading as little of it as an
// engine can and allocating nothing.
func quickEngine(answer string) func(*net.TCPConn, int) {
	return func(c *net.TCPConn, _ int) {
		out := []byte(answer)
		buf := make([]byte, 64<<10)
		have := 0
		for {
			n, err := c.Read(buf[have:])
			if err != nil {
				return
			}
			have += n
			end := bytes.Index(buf[:have], crlfcrlf) + 4
			if end < 4 {
				continue
			}
			if have = quickBody(c, buf, end, have); have < 0 {
				return
			}
			if _, err := c.Write(out); err != nil {
				return
			}
		}
	}
}

// quickBody reads the body of the request whose head ends at end; -1: it broke.
func quickBody(c *net.TCPConn, buf []byte, end, have int) int {
	head := buf[:end]
	if at := bytes.Index(head, []byte("Content-Length: ")); at >= 0 {
		value := head[at+16:]
		left := int(parseLength(value[:bytes.IndexByte(value, '\r')])) - (have - end)
		for left > 0 {
			n, err := c.Read(buf[:min(left, len(buf))])
			if err != nil {
				return -1
			}
			left -= n
		}
		return 0
	}
	if !bytes.Contains(head, []byte("chunked")) {
		return 0
	}
	for tail := buf[end:have]; !bytes.HasSuffix(tail, wholeChunksEnd); {
		n, err := c.Read(buf)
		if err != nil {
			return -1
		}
		tail = buf[:n]
	}
	return 0
}

// BenchmarkLeg is one exchange over loopback, the engine in the same process.
func BenchmarkLeg(b *testing.B) {
	const ok = "HTTP/1.1 200 OK\r\nServer: uvicorn\r\nContent-Type: application/json\r\n"
	f := func(name, answer string, body []byte) {
		b.Run(name, func(b *testing.B) {
			e := startRawEngine(b, quickEngine(answer))
			p := newPool(e.address, &upstreamOptions{})
			defer p.close()
			c := newLegClient("POST")
			var dst []byte
			var w flushWriter = discardFlusher{io.Discard}
			b.ReportAllocs()
			for b.Loop() {
				if err := c.begin(p, body, nil); err != nil {
					b.Fatal(err)
				}
				var whole bool
				if dst, whole = c.leg.complete(dst[:0]); !whole {
					if _, err := c.leg.WriteTo(w); err != nil {
						b.Fatal(err)
					}
				}
				c.leg.close(true)
			}
		})
	}
	body := pattern(2048)
	f("2KB/200B", ok+"Content-Length: 200\r\n\r\n"+string(pattern(200)), body)
	f("200KB/200B", ok+"Content-Length: 200\r\n\r\n"+string(pattern(200)), pattern(200_000))
	f("2KB/1MB", ok+"Content-Length: 1000000\r\n\r\n"+string(pattern(1_000_000)), body)
	event := "data: {\"choices\":[{\"delta\":{\"content\":\"token\"}}]}\n\n"
	f("2KB/1000 events", ok+"Transfer-Encoding: chunked\r\n\r\n"+
		strings.Repeat(strconv.FormatInt(int64(len(event)), 16)+"\r\n"+event+"\r\n", 1000)+"0\r\n\r\n", body)
}

type discardFlusher struct{ io.Writer }

func (discardFlusher) Flush() error { return nil }

// BenchmarkPlainExchange is what a write and a read of the same bytes on one
// connection cost without any HTTP: the floor of BenchmarkLeg/2KB/200B.
func BenchmarkPlainExchange(b *testing.B) {
	answer := "HTTP/1.1 200 OK\r\nServer: uvicorn\r\nContent-Type: application/json\r\nContent-Length: 200\r\n\r\n" + string(pattern(200))
	e := startRawEngine(b, quickEngine(answer))
	c, err := net.Dial("tcp", e.address)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	request := []byte("POST /v1/x?y=1 HTTP/1.1\r\nHost: engine.test\r\nContent-Length: 2048\r\n\r\n" + string(pattern(2048)))
	buf := make([]byte, 16<<10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, buf[:len(answer)]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkChunkDecoder is 16 KiB of small chunks, as a burst of events brings
// them, and of one large chunk.
func BenchmarkChunkDecoder(b *testing.B) {
	f := func(name, body string) {
		b.Run(name, func(b *testing.B) {
			var c chunkDecoder
			in := []byte(body)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				c.reset()
				for used := 0; used < len(in); {
					_, n, ok := c.next(in[used:])
					if !ok {
						b.Fatal("malformed")
					}
					used += n
				}
			}
		})
	}
	f("small", strings.Repeat("40\r\n"+strings.Repeat("x", 64)+"\r\n", 223)+"0\r\n\r\n")
	f("large", "4000\r\n"+strings.Repeat("x", 16<<10)+"\r\n0\r\n\r\n")
}
