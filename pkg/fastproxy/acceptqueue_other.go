//go:build !linux

package fastproxy

import "net"

// acceptQueued takes nothing here: what is queued is lost with the listener.
func acceptQueued(net.Listener) []*net.TCPConn { return nil }
