package fastproxy

import (
	"io"
	"net"
	"testing"
	"time"
)

// Connections that nobody has accepted outlive their listener.
func TestAcceptQueued(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const clients = 50
	for range clients {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Fatal(err)
		}
	}
	conns := acceptQueued(l)
	l.Close()
	if len(conns) != clients {
		t.Fatalf("%d connections of %d", len(conns), clients)
	}
	for _, c := range conns {
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		b := make([]byte, 5)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
			t.Errorf("%q, %v", b, err)
		}
	}
	if left := acceptQueued(l); len(left) > 0 {
		t.Errorf("a closed listener yields %d connections", len(left))
	}
}
