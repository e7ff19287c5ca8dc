package fastproxy

import "net"

// attendant takes what arrives on a connection, as it arrives.
type attendant interface {
	// room is where the next read goes; it is not empty.
	room() []byte
	// received takes the n > 0 bytes that were read there; true: it wants no
	// more. It must not read the connection itself.
	received(n int) bool
}

// attend reads conn for a until that has enough. The error is the connection's.
func attend(conn net.Conn, a attendant) error {
	for {
		n, err := conn.Read(a.room())
		switch {
		case n > 0 && a.received(n):
			return nil
		case n == 0 && err != nil:
			return err
		}
	}
}
