package enginesim

import (
	"io"
	"net/http"
)

// maxFaultBytes bounds the body of POST /debug/fault.
const maxFaultBytes = 64 << 10

type debugRequests struct {
	Engine string `json:"engine"`
	Counters
	Running     int        `json:"running"`
	Waiting     int        `json:"waiting"`
	Cache       CacheStats `json:"cache"`
	Connections ConnStats  `json:"connections"`
}

// serveCounters is GET /debug/requests.
func (e *Engine) serveCounters(w http.ResponseWriter, _ *http.Request) {
	running, waiting := e.Load()
	answer := debugRequests{
		Engine: e.Name(), Counters: e.Counters(), Running: running, Waiting: waiting,
		Cache: e.Cache(), Connections: e.Connections(),
	}
	if answer.Cancellations == nil {
		answer.Cancellations = []Cancellation{}
	}
	writeJSON(w, http.StatusOK, answer)
}

type debugFault struct {
	Request     Fault `json:"request"`         // the request fault in force, kind none when there is none
	IdleTimeout int64 `json:"idle_timeout_ms"` // 0: idle connections stay
}

// serveFault is /debug/fault: GET shows, POST sets (a Fault as JSON), DELETE heals.
func (e *Engine) serveFault(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFaultBytes))
		if err != nil {
			writeError(w, r, invalid("", "cannot read fault: %v", err))
			return
		}
		f, err := ParseFault(text)
		if err != nil {
			writeError(w, r, invalid("", "%v", err))
			return
		}
		e.apply(f)
	case http.MethodDelete:
		e.apply(Fault{Kind: FaultNone})
	}
	current := e.faults.get()
	if current.Kind == "" {
		current.Kind = FaultNone
	}
	writeJSON(w, http.StatusOK, debugFault{Request: current, IdleTimeout: e.conns.idleTimeoutNow().Milliseconds()})
}
