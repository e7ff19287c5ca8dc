package fastproxy

import "errors"

// What a leg reports. Each value is one class of failure that the core treats
// in its own way; none of them carries an address or a byte of a message.
var (
	// errConnectRefused: the endpoint refused the connection. Nothing was sent.
	errConnectRefused = errors.New("fastproxy: connection to the endpoint refused")
	// errConnectTimeout: the connection was not made in time. Nothing was sent.
	errConnectTimeout = errors.New("fastproxy: connecting to the endpoint timed out")
	// errConnectFailed: no connection for another reason (no route, unknown
	// name). Nothing was sent.
	errConnectFailed = errors.New("fastproxy: cannot connect to the endpoint")
	// errShortage: this process or its system lacks what a connection takes
	// (descriptors, ports, memory), through no fault of the endpoint. Nothing
	// was sent.
	errShortage = errors.New("fastproxy: no descriptors, ports or memory left to connect to the endpoint")
	// errPoolFull: the endpoint has MaxOpen connections already. Nothing was sent.
	errPoolFull = errors.New("fastproxy: too many connections to the endpoint")

	// errStale: a reused connection failed without a response byte within
	// staleWindow of the last byte sent, and the request can be sent again: its
	// body was passed whole, or keptBody returns it.
	errStale = errors.New("fastproxy: reused connection was closed by the endpoint")
	// errNoResponse: the connection ended before the first response byte, and
	// the endpoint may have worked on the request.
	errNoResponse = errors.New("fastproxy: endpoint closed the connection without a response")
	// errFirstByteTimeout: no response, or no reading of the request's body, in time.
	errFirstByteTimeout = errors.New("fastproxy: endpoint sent no response in time")
	// errIdleTimeout: the response's body paused for too long.
	errIdleTimeout = errors.New("fastproxy: endpoint paused too long within its response")
	// errDeadline: the try's whole time is over.
	errDeadline = errors.New("fastproxy: time for the exchange is over")
	// errBadResponse: the endpoint broke HTTP/1.1.
	errBadResponse = errors.New("fastproxy: malformed response from the endpoint")
	// errUpstreamCut: the connection ended within the response's body. All that
	// came before has been passed on.
	errUpstreamCut = errors.New("fastproxy: endpoint ended its response early")
	// errClientWrite: the answer could not be written to the client.
	errClientWrite = errors.New("fastproxy: cannot write the response to the client")
	// errClientGone: the client has left.
	errClientGone = errors.New("fastproxy: client has gone")
)

// connectFailed tells whether err means that no connection was made and so
// nothing reached the endpoint.
func connectFailed(err error) bool {
	switch err {
	case errConnectRefused, errConnectTimeout, errConnectFailed, errShortage, errPoolFull:
		return true
	}
	return false
}
