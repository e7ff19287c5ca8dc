package fastproxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// rawClient is a connection to the proxy with a bound on the test's patience.
func rawClient(t *testing.T, p *proxy) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second))
	return c.(*net.TCPConn)
}

// TestEarlyAnswerEndToEnd: a client that is not through with its upload, or has
// stopped in the middle of it, gets the answer that the engine has given.
func TestEarlyAnswerEndToEnd(t *testing.T) {
	e := startRawEngine(t, func(c *net.TCPConn, _ int) {
		bufio.NewReaderSize(c, 4096).Peek(4096)
		io.WriteString(c, early413)
		time.Sleep(100 * time.Millisecond)
	})
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyDefault, e.address), port, nil)
	piece := bytes.Repeat([]byte("x"), 100_000)
	const head = "POST /upload HTTP/1.1\r\nHost: a.test\r\n"
	f := func(name, framing string, upload func(c net.Conn)) {
		t.Run(name, func(t *testing.T) {
			c := rawClient(t, p)
			io.WriteString(c, head+framing)
			go upload(c)
			begin := time.Now()
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 413 || string(b) != "big" || !resp.Close {
				t.Fatalf("status %d, body %q, %v, close %v", resp.StatusCode, b, err, resp.Close)
			}
			if d := time.Since(begin); d > 10*time.Second {
				t.Errorf("the answer took %v", d)
			}
		})
	}
	f("length, stopped", "Content-Length: 20000000\r\n\r\n", func(c net.Conn) { c.Write(piece) })
	f("chunks, stopped", "Transfer-Encoding: chunked\r\n\r\n", func(c net.Conn) { fmt.Fprintf(c, "%x\r\n%s", len(piece)*2, piece) })
	f("length", "Content-Length: 20000000\r\n\r\n", func(c net.Conn) {
		for range 200 {
			c.Write(piece)
		}
	})
	f("chunks", "Transfer-Encoding: chunked\r\n\r\n", func(c net.Conn) {
		for range 200 {
			fmt.Fprintf(c, "%x\r\n%s\r\n", len(piece), piece)
		}
	})
	eventually(t, "the ledger is zero", func() bool { return p.loads() == 0 })
}

// TestDuplexEndToEnd: pieces of an upload reach the engine, and its answers the
// client, before the next piece is sent.
func TestDuplexEndToEnd(t *testing.T) {
	engine := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		control.EnableFullDuplex()
		control.Flush()
		buf := make([]byte, 64<<10)
		for {
			n, err := r.Body.Read(buf)
			w.Write(buf[:n])
			control.Flush()
			if err != nil {
				return
			}
		}
	}))
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyDefault, engine), port, nil)
	for range 5 {
		c := rawClient(t, p)
		io.WriteString(c, "POST /echo HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n")
		var resp *http.Response
		for i := range 20 {
			piece := pattern(1 + i*i*500)
			fmt.Fprintf(c, "%x\r\n%s\r\n", len(piece), piece)
			if resp == nil {
				var err error
				if resp, err = http.ReadResponse(bufio.NewReader(c), nil); err != nil {
					t.Fatal(err)
				}
			}
			got := make([]byte, len(piece))
			if _, err := io.ReadFull(resp.Body, got); err != nil || !bytes.Equal(got, piece) {
				t.Fatalf("piece %d: %v", i, err)
			}
		}
		io.WriteString(c, "0\r\n\r\n")
		if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
			t.Fatalf("%q, %v", rest, err)
		}
	}
	eventually(t, "the ledger is zero", func() bool { return p.loads() == 0 })
}

// TestLeavingClientsEndToEnd is TestLeavingClients through sockets: clients that
// close or reset their connections in the middle of requests, or just after,
// never harm others that use the same connections to the engine.
func TestLeavingClientsEndToEnd(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var salt atomic.Uint64
	engine := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		rnd := rand.New(rand.NewPCG(seed, salt.Add(1)))
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
		if rnd.IntN(2) == 0 {
			w.Write(b[:1])
			http.NewResponseController(w).Flush()
			b = b[1:]
		}
		w.Write(b)
	}))
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyDefault, engine), port, nil)
	var left, right atomic.Int64
	begun := time.Now()
	going := func() bool {
		d := time.Since(begun)
		return d < 2*time.Second || d < 40*time.Second && left.Load() < 2000
	}
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(1<<40+n)))
			for i := 0; going() && i < 20_000; i++ {
				c, err := net.Dial("tcp", p.address())
				if err != nil {
					t.Error(err)
					return
				}
				body := fmt.Sprintf("leaver %d/%d", n, i)
				fmt.Fprintf(c, "POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				if rnd.IntN(3) > 0 {
					time.Sleep(time.Duration(rnd.IntN(400)) * time.Microsecond)
				} else {
					c.Read(make([]byte, 1)) // the answer has just begun
				}
				if rnd.IntN(2) == 0 {
					c.(*net.TCPConn).SetLinger(0)
				}
				c.Close()
				left.Add(1)
			}
		})
	}
	for n := range 4 {
		wg.Go(func() {
			client := newClient(t)
			for i := 0; going() && i < 50_000; i++ {
				body := "stayer " + strconv.Itoa(n) + "/" + strconv.Itoa(i)
				resp, err := client.Post(p.url("/x"), "text/plain", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != 200 || string(got) != body {
					t.Errorf("%s: status %d, %q, %v", body, resp.StatusCode, got, err)
					return
				}
				right.Add(1)
			}
		})
	}
	wg.Wait()
	t.Logf("%d left, %d stayed", left.Load(), right.Load())
	eventually(t, "the ledger is zero", func() bool { return p.loads() == 0 })
}
