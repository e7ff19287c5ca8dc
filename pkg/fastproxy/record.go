package fastproxy

import "flexinfer.ai/gateway/pkg/routing"

// decided counts and logs a decision; first: it is not a further try of the
// same request.
func (s *Server) decided(d *routing.Decision, first bool) {
	s.metrics.decision(d, first)
	s.log.decided(d)
}

// record counts and logs an exchange at its end, at the time now in Unix
// nanoseconds.
func (s *Server) record(x *exchange, now int64) {
	s.metrics.finished(x, now)
	if s.options.AccessLog {
		s.log.access(x, now)
	}
}
