package testrig

import (
	"net"
	"testing"
)

// FreePort is a TCP port of 127.0.0.1 that nobody listens on just now.
func FreePort(t testing.TB) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}
