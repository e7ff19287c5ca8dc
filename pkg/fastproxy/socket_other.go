//go:build !linux

package fastproxy

import "net"

// socket is a TCP connection.
type socket struct{ *net.TCPConn }

func newSocket(c *net.TCPConn) *socket { return &socket{c} }
