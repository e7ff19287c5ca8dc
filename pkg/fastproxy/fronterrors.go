package fastproxy

import "errors"

// What reading a request's body reports besides io.EOF and errClientGone.
var (
	// errBadBody: the framing of the client's body is broken.
	errBadBody = errors.New("fastproxy: malformed request body")
	// errBodyTimeout: the client paused too long within its body.
	errBodyTimeout = errors.New("fastproxy: client paused too long within its request body")
)
