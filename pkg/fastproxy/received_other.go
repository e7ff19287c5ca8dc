//go:build !linux

package fastproxy

// requestReceived tells, of a connection that ended without an answer, whether
// the endpoint's process may have read all that was sent. That is not known
// here.
func (u *upstreamConn) requestReceived() bool { return true }
