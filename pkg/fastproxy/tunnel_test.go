package fastproxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// upgradeEngine accepts upgrades to "echo" and hands the connection to serve,
// sending first together with the 101.
func upgradeEngine(t *testing.T, first string, serve func(c *net.TCPConn, r *bufio.Reader)) *rawEngine {
	return startRawEngine(t, func(c *net.TCPConn, _ int) {
		r := bufio.NewReader(c)
		q, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if q.Header.Get("Upgrade") != "echo" {
			io.WriteString(c, "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n")
			return
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: Echo\r\n\r\n"+first)
		serve(c, r)
	})
}

// startTunnel upgrades and runs the tunnel; the client's end is returned.
func startTunnel(t *testing.T, p *pool, buffered string) (client *net.TCPConn, x *exchange, ended chan struct{}) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	front, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	x = &exchange{slot: &clientSlot{}}
	h := newLegClient("GET")
	h.head.Set("Connection", "Upgrade")
	h.head.Set("Upgrade", "echo")
	if err := x.leg.open(p, x.slot, &h.times, true); err != nil {
		t.Fatal(err)
	}
	if err := x.leg.roundTrip(&h.head, nil, nil, &h.resp, nil); err != nil {
		t.Fatal(err)
	}
	if framing, _ := x.leg.framing(); framing != bodyTunnel || h.resp.StatusCode() != 101 {
		t.Fatalf("framing %d, status %d", framing, h.resp.StatusCode())
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		x.runTunnel(front, []byte(buffered))
		x.leg.close(true)
	}()
	return c.(*net.TCPConn), x, ended
}

func waitEnded(t *testing.T, p *pool, ended chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the tunnel never ended")
	}
	if open, idle := p.counts(); open != 0 || idle != 0 {
		t.Errorf("%d connections are open, %d kept", open, idle)
	}
}

// TestTunnel: frames that came with the heads, both directions at once, and
// half-close either way with the other direction going on.
func TestTunnel(t *testing.T) {
	long := pattern(1 << 20)
	t.Run("echo until the client has ended", func(t *testing.T) {
		e := upgradeEngine(t, "hello ", func(c *net.TCPConn, r *bufio.Reader) {
			io.Copy(c, r)
			io.WriteString(c, " bye")
		})
		p := newPool(e.address, &upstreamOptions{})
		client, x, ended := startTunnel(t, p, "early ")
		go func() {
			client.Write(long)
			client.CloseWrite()
		}()
		got, err := io.ReadAll(client)
		want := append(append([]byte("hello early "), long...), " bye"...)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %d bytes, %v; want %d", len(got), err, len(want))
		}
		waitEnded(t, p, ended)
		if x.sent != int64(len(want)) {
			t.Errorf("%d bytes are counted of %d", x.sent, len(want))
		}
	})
	t.Run("engine ends first", func(t *testing.T) {
		received := make(chan []byte, 1)
		e := upgradeEngine(t, "", func(c *net.TCPConn, r *bufio.Reader) {
			io.WriteString(c, "that is all")
			c.CloseWrite()
			b, _ := io.ReadAll(r)
			received <- b
		})
		p := newPool(e.address, &upstreamOptions{})
		client, _, ended := startTunnel(t, p, "")
		if got, err := io.ReadAll(client); err != nil || string(got) != "that is all" {
			t.Fatalf("got %q, %v", got, err)
		}
		client.Write(long)
		client.Close()
		if got := <-received; !bytes.Equal(got, long) {
			t.Fatalf("the engine got %d bytes", len(got))
		}
		waitEnded(t, p, ended)
	})
	t.Run("client is reset", func(t *testing.T) {
		gone := make(chan error, 1)
		e := upgradeEngine(t, "", func(c *net.TCPConn, r *bufio.Reader) {
			_, err := io.Copy(io.Discard, r)
			gone <- err
		})
		p := newPool(e.address, &upstreamOptions{})
		client, _, ended := startTunnel(t, p, "")
		client.Write([]byte("x"))
		client.SetLinger(0)
		client.Close()
		<-gone
		waitEnded(t, p, ended)
	})
	t.Run("engine is gone", func(t *testing.T) {
		e := upgradeEngine(t, "", func(c *net.TCPConn, r *bufio.Reader) {
			r.ReadByte()
			c.SetLinger(0)
		})
		p := newPool(e.address, &upstreamOptions{})
		client, _, ended := startTunnel(t, p, "x")
		io.Copy(io.Discard, client)
		waitEnded(t, p, ended)
	})
	t.Run("nothing moves", func(t *testing.T) {
		e := upgradeEngine(t, "", func(c *net.TCPConn, r *bufio.Reader) { io.Copy(io.Discard, r) })
		p := newPool(e.address, &upstreamOptions{TunnelIdleTimeout: 300 * time.Millisecond})
		client, _, ended := startTunnel(t, p, "")
		begin := time.Now()
		for range 6 { // one direction that moves keeps the other
			time.Sleep(100 * time.Millisecond)
			client.Write([]byte("x"))
		}
		io.Copy(io.Discard, client)
		waitEnded(t, p, ended)
		if d := time.Since(begin); d < 800*time.Millisecond {
			t.Errorf("ended after %v", d)
		}
	})
	t.Run("slot fired before", func(t *testing.T) {
		e := upgradeEngine(t, "", func(c *net.TCPConn, r *bufio.Reader) { io.Copy(io.Discard, r) })
		p := newPool(e.address, &upstreamOptions{})
		x := &exchange{slot: &clientSlot{}}
		h := newLegClient("GET")
		h.head.Set("Upgrade", "echo")
		if err := x.leg.open(p, x.slot, &h.times, true); err != nil {
			t.Fatal(err)
		}
		if err := x.leg.roundTrip(&h.head, nil, nil, &h.resp, nil); err != nil {
			t.Fatal(err)
		}
		x.slot.fire()
		a, b := net.Pipe()
		defer b.Close()
		x.runTunnel(a, nil)
		if open, _ := p.counts(); open != 0 {
			t.Errorf("%d connections are open", open)
		}
	})
}

// TestTunnelRefused: an answer other than 101 is an ordinary one; a 101 to
// another protocol is malformed.
func TestTunnelRefused(t *testing.T) {
	f := func(protocol string, status int, want error) {
		t.Helper()
		e := startRawEngine(t, func(c *net.TCPConn, _ int) {
			q, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			if q.Header.Get("Upgrade") == "echo" {
				io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
				return
			}
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n")
		})
		p := newPool(e.address, &upstreamOptions{})
		defer p.close()
		c := newLegClient("GET")
		c.head.Set("Upgrade", protocol)
		_, err := c.do(p, nil, nil)
		if err != want || err == nil && c.resp.StatusCode() != status {
			t.Errorf("%s: %v, status %d", protocol, err, c.resp.StatusCode())
		}
	}
	f("echo", 403, nil)
	f("websocket", 0, errBadResponse)
}
