package enginesim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// FaultKind names a way to fail.
type FaultKind string

// The ways to fail.
const (
	FaultNone      FaultKind = "none"       // heal: no fault, idle connections kept as the options say
	FaultStatus    FaultKind = "status"     // answer with Status and an error body
	FaultHang      FaultKind = "hang"       // take the request, send nothing until the fault is lifted
	FaultDelay     FaultKind = "delay"      // wait DurationMillis, then serve normally
	FaultClose     FaultKind = "close"      // take the request, close the connection with no byte sent
	FaultDie       FaultKind = "die"        // close the connection after AfterBytes of the answer's body
	FaultIdleClose FaultKind = "idle-close" // close connections idle for DurationMillis (5000 unless given)
)

// uvicornKeepAliveMillis is the keep-alive time-out of uvicorn by default.
const uvicornKeepAliveMillis = 5000

// Fault is a failure on demand. Of the request faults (all but idle-close) one is
// in force at a time; idle-close is independent of them.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Path limits the fault to paths with this prefix. Empty: every path but
	// /health, /metrics and those below /debug/; the latter never fail.
	Path string `json:"path,omitempty"`
	// Count lifts the fault after so many requests. 0: it stays until lifted.
	Count int `json:"count,omitempty"`
	// Status is the answer's code for kind status.
	Status int `json:"status,omitempty"`
	// RetryAfter, in seconds, is sent with kind status when positive.
	RetryAfter int `json:"retry_after,omitempty"`
	// AfterBytes is the number of body bytes sent before kind die strikes. 0: the
	// header alone.
	AfterBytes int64 `json:"after_bytes,omitempty"`
	// DurationMillis belongs to kinds delay and idle-close.
	DurationMillis int64 `json:"duration_ms,omitempty"`
	// Early fails without reading the request's body first (kinds status, close).
	Early bool `json:"early,omitempty"`
	// Reset closes with a TCP reset instead of FIN (kinds close and die).
	Reset bool `json:"reset,omitempty"`
}

// ParseFault reads a Fault from JSON, unknown fields refused, and validates it.
func ParseFault(text []byte) (Fault, error) {
	var f Fault
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return Fault{}, fmt.Errorf(`cannot read fault: %w; give an object like {"kind":"status","status":503}`, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Fault{}, errors.New("cannot read fault: more follows after the object; give one object")
	}
	return f, f.Validate()
}

// Validate reports fields that are out of range or belong to another kind.
func (f Fault) Validate() error {
	if f.Count < 0 || f.AfterBytes < 0 || f.DurationMillis < 0 || f.RetryAfter < 0 {
		return errors.New("fault: count, after_bytes, duration_ms and retry_after must not be negative")
	}
	if f.Kind != FaultStatus && (f.Status != 0 || f.RetryAfter != 0) {
		return fmt.Errorf("fault: status and retry_after belong to kind %q, not %q", FaultStatus, f.Kind)
	}
	if f.Kind != FaultDie && f.AfterBytes != 0 {
		return fmt.Errorf("fault: after_bytes belongs to kind %q, not %q", FaultDie, f.Kind)
	}
	switch f.Kind {
	case FaultStatus:
		if f.Status < 400 || f.Status > 599 {
			return fmt.Errorf("fault: status is %d; kind %q needs one from 400 to 599", f.Status, f.Kind)
		}
	case FaultDelay:
		if f.DurationMillis == 0 {
			return fmt.Errorf("fault: kind %q needs a positive duration_ms", f.Kind)
		}
	case FaultNone, FaultHang, FaultClose, FaultDie, FaultIdleClose:
	default:
		return fmt.Errorf("fault: unknown kind %q; give none, status, hang, delay, close, die or idle-close", f.Kind)
	}
	return nil
}

// faultState holds the request fault in force. Safe for concurrent use.
type faultState struct {
	mu      sync.Mutex
	current Fault         // Kind FaultNone or "" when healthy
	left    int           // requests left when current.Count > 0
	lifted  chan struct{} // closed when current is replaced
}

func (s *faultState) set(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lifted != nil {
		close(s.lifted)
	}
	s.current, s.left, s.lifted = f, f.Count, make(chan struct{})
}

func (s *faultState) get() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// take returns the fault that a request for path must suffer, if any, and a
// channel that is closed when the fault is lifted by hand. The request that uses
// up Count still suffers it.
func (s *faultState) take(path string) (f Fault, lifted <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Kind == "" || s.current.Kind == FaultNone || !s.current.covers(path) {
		return Fault{}, nil, false
	}
	f, lifted = s.current, s.lifted
	if f.Count > 0 {
		if s.left--; s.left == 0 {
			s.current = Fault{Kind: FaultNone}
		}
	}
	return f, lifted, true
}

func (f Fault) covers(path string) bool {
	if strings.HasPrefix(path, "/debug/") {
		return false
	}
	if f.Path == "" {
		return path != "/health" && path != "/metrics"
	}
	return strings.HasPrefix(path, f.Path)
}

// suffer applies f to a request. It returns the writer to go on with, or nil when
// the request is answered. To break the connection it panics with
// http.ErrAbortHandler, which net/http recovers: HTTP/1.1 closes, HTTP/2 resets
// the stream.
func (e *Engine) suffer(w http.ResponseWriter, r *http.Request, x *exchange, f Fault, lifted <-chan struct{}) http.ResponseWriter {
	x.setPhase(phaseFault)
	switch f.Kind {
	case FaultDie:
		x.doomed = true
		return &dyingWriter{ResponseWriter: w, left: f.AfterBytes, die: func() { x.fault(); abort(w, f.Reset) }}
	case FaultDelay:
		if !e.holdBack(w, r, x, time.Duration(f.DurationMillis)*time.Millisecond, nil) {
			return nil
		}
		return w
	case FaultHang:
		if !e.holdBack(w, r, x, 0, lifted) {
			return nil
		}
		return w
	}
	if !f.Early {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			x.cancel()
			panic(http.ErrAbortHandler)
		}
	}
	x.fault()
	if f.Kind == FaultClose {
		abort(w, f.Reset)
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	writeError(w, r, apiError{status: f.Status, message: "simulated fault"})
	return nil
}

// holdBack waits for d, or until lifted is closed where it is given, and tells
// whether the client is still there. net/http watches a connection for its close
// only once the body is read, so the body is read into memory first.
func (e *Engine) holdBack(w http.ResponseWriter, r *http.Request, x *exchange, d time.Duration, lifted <-chan struct{}) bool {
	body, err := readBody(w, r, e.options.MaxBodyBytes)
	if err != nil {
		e.refuseBody(w, r, x, err)
		return false
	}
	r.Body = body.reader()
	if lifted == nil {
		return e.sleep(r.Context(), d) == nil
	}
	select {
	case <-lifted:
		return true
	case <-r.Context().Done():
		return false
	}
}

// dyingWriter passes on so many body bytes, then calls die, which must not return.
type dyingWriter struct {
	http.ResponseWriter
	left int64
	die  func()
}

func (d *dyingWriter) Write(p []byte) (int, error) {
	if int64(len(p)) <= d.left && d.left > 0 {
		d.left -= int64(len(p))
		return d.ResponseWriter.Write(p)
	}
	if d.left > 0 {
		if _, err := d.ResponseWriter.Write(p[:d.left]); err != nil {
			return 0, err
		}
	}
	if err := http.NewResponseController(d.ResponseWriter).Flush(); err != nil {
		return 0, err
	}
	d.die()
	return 0, context.Canceled
}

// Unwrap lets http.ResponseController reach the connection.
func (d *dyingWriter) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// abort breaks off the exchange; it never returns.
func abort(w http.ResponseWriter, reset bool) {
	if reset {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			if c, ok := conn.(*engineConn); ok {
				conn = c.Conn
			}
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // a failure leaves FIN, which is still a cut
			}
			_ = conn.Close()
		}
	}
	panic(http.ErrAbortHandler)
}
