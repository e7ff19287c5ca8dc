//go:build !linux

package fastproxy

import "net"

// socket is a TCP connection.
type socket struct{ *net.TCPConn }

// attend is the attend of all connections.
func (s *socket) attend(a attendant) error { return attend(s, a) }

// writeNow writes nothing: where a write may wait is not known beforehand.
func (s *socket) writeNow([]byte) (int, error) { return 0, nil }

func newSocket(c *net.TCPConn) *socket { return &socket{c} }
