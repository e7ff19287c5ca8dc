package enginesim

import "net/http"

// eventWriter sends server-sent events, each flushed on its own. The response
// header goes out with the first one. One goroutine.
type eventWriter struct {
	w     http.ResponseWriter
	flush func() error
	begun bool
	buf   []byte
}

func newEventWriter(w http.ResponseWriter) *eventWriter {
	return &eventWriter{w: w, flush: http.NewResponseController(w).Flush}
}

// begin sends the response header, once.
func (s *eventWriter) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	header := s.w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-cache")
	s.w.WriteHeader(http.StatusOK)
	return s.flush()
}

// event sends payload as JSON, under an event name unless that is empty.
func (s *eventWriter) event(name string, payload any) error {
	data, err := encodeJSON(payload)
	if err != nil {
		return err
	}
	return s.raw(name, data)
}

func (s *eventWriter) raw(name string, data []byte) error {
	if err := s.begin(); err != nil {
		return err
	}
	s.buf = s.buf[:0]
	if name != "" {
		s.buf = append(s.buf, "event: "...)
		s.buf = append(s.buf, name...)
		s.buf = append(s.buf, '\n')
	}
	s.buf = append(s.buf, "data: "...)
	s.buf = append(s.buf, data...)
	s.buf = append(s.buf, "\n\n"...)
	if _, err := s.w.Write(s.buf); err != nil {
		return err
	}
	return s.flush()
}

// done sends OpenAI's end mark.
func (s *eventWriter) done() error { return s.raw("", []byte("[DONE]")) }
