//go:build !race

package fastproxy

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// allocFreeEngine serves keep-alive connections without allocating per request:
// it reads head and body as they come (both small, each request in one piece)
// and writes the pieces of the answer, a moment apart.
func allocFreeEngine(t testing.TB, pieces ...string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	var answer [][]byte
	for _, p := range pieces {
		answer = append(answer, []byte(p))
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 64<<10)
				for {
					if _, err := c.Read(buf); err != nil {
						return
					}
					for i, piece := range answer {
						if i > 0 {
							time.Sleep(500 * time.Microsecond)
						}
						if _, err := c.Write(piece); err != nil {
							return
						}
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// TestExchangeAllocs holds the whole HTTP/1.1 exchange, client's bytes in to
// answer's bytes out, over real sockets: none on a buffered one, at most one on
// a streamed one, under every strategy.
func TestExchangeAllocs(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"system","content":"You are terse."},{"role":"user","content":"Hello"}],"stream":false}`
	buffered := []string{"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"ok\":true}"}
	streamed := []string{
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
		"b\r\ndata: one\n\n\r\n", "b\r\ndata: two\n\n\r\n" + "0\r\n\r\n",
	}
	for _, strategy := range []routing.Strategy{
		routing.StrategyDefault, routing.StrategySession, routing.StrategyPrefix, routing.StrategyLeastLoaded,
	} {
		for _, c := range []struct {
			name   string
			answer []string
			limit  float64
		}{{"buffered", buffered, 0}, {"streamed", streamed, 1}} {
			t.Run(fmt.Sprintf("%s/%s", strategy, c.name), func(t *testing.T) {
				port := testrig.FreePort(t)
				engine := allocFreeEngine(t, c.answer...)
				startProxy(t, oneModel(port, strategy, engine), port, nil)
				conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				request := []byte(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nX-Session-ID: s-1\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
				in := bufio.NewReaderSize(conn, 64<<10)
				exchange := func() {
					if _, err := conn.Write(request); err != nil {
						t.Fatal(err)
					}
					readAnswerNoAlloc(t, in)
				}
				for range 100 {
					exchange()
				}
				runtime.GC()
				got := testing.AllocsPerRun(400, exchange)
				t.Logf("%v allocations per exchange", got)
				if got > c.limit {
					t.Errorf("%v allocations per exchange, want at most %v", got, c.limit)
				}
			})
		}
	}
}

// readAnswerNoAlloc reads one answer up to its known last bytes.
func readAnswerNoAlloc(t *testing.T, in *bufio.Reader) {
	first, err := in.Peek(len("HTTP/1.1 200"))
	if err != nil || string(first) != "HTTP/1.1 200" {
		t.Fatalf("answer begins with %q, %v", first, err)
	}
	length, chunked := 0, false
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			t.Fatal(err)
		}
		if len(line) == 2 {
			break
		}
		switch {
		case string(line) == "Content-Length: 11\r\n":
			length = 11
		case string(line) == "Transfer-Encoding: chunked\r\n":
			chunked = true
		}
	}
	if !chunked {
		if _, err := in.Discard(length); err != nil || length == 0 {
			t.Fatalf("body of %d bytes: %v", length, err)
		}
		return
	}
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			t.Fatal(err)
		}
		if string(line) == "0\r\n" {
			if _, err := in.Discard(2); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}
