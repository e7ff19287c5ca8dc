package enginesim

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func setFault(t *testing.T, e *Engine, text string) {
	t.Helper()
	if r, answer := send(t, http.MethodPost, e.URL()+"/debug/fault", text); r.StatusCode != 200 {
		t.Fatalf("POST /debug/fault %s: %s %s", text, r.Status, answer)
	}
}

func TestFaultStatus(t *testing.T) {
	e := start(t, Options{Fault: Fault{Kind: FaultStatus, Status: 503, RetryAfter: 7, Count: 2, Path: "/v1/"}})
	f := func(path string, want int, shape string) {
		t.Helper()
		r, text := send(t, http.MethodPost, e.URL()+path, `{"prompt":"x"}`)
		if r.StatusCode != want || !strings.Contains(string(text), shape) {
			t.Errorf("%s: %s %s, want %d with %s", path, r.Status, text, want, shape)
		}
		if want == 503 && r.Header.Get("Retry-After") != "7" {
			t.Errorf("Retry-After %q", r.Header.Get("Retry-After"))
		}
	}
	f("/echo", 200, "body_length")
	f("/v1/completions", 503, `"type":"server_error"`)
	f("/v1/messages", 503, `"type":"api_error"`)
	f("/v1/completions", 200, "text_completion")
	setFault(t, e, `{"kind":"status","status":500,"path":"/health"}`)
	if r, _ := send(t, http.MethodGet, e.URL()+"/health", ""); r.StatusCode != 500 {
		t.Errorf("/health: %s", r.Status)
	}
	if r, _ := send(t, http.MethodDelete, e.URL()+"/debug/fault", ""); r.StatusCode != 200 {
		t.Errorf("DELETE: %s", r.Status)
	}
	if r, _ := send(t, http.MethodGet, e.URL()+"/health", ""); r.StatusCode != 200 {
		t.Errorf("/health after healing: %s", r.Status)
	}
	if c := e.Counters(); c.Faulted != 2 || c.Finished != 2 || c.Started != 4 {
		t.Errorf("%+v", c)
	}
}

// An early answer comes before the body is there.
func TestFaultStatusEarly(t *testing.T) {
	e := start(t, Options{Fault: Fault{Kind: FaultStatus, Status: 429, Early: true}})
	conn, r := dial(t, e)
	_, _ = io.WriteString(conn, "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
	response, err := http.ReadResponse(r, nil)
	if err != nil || response.StatusCode != 429 {
		t.Fatalf("%v, %v", response, err)
	}
	_ = response.Body.Close()
}

func TestFaultHang(t *testing.T) {
	e := start(t, Options{})
	setFault(t, e, `{"kind":"hang"}`)
	leave, done := open(t, e.URL()+"/v1/completions", `{"prompt":"x"}`)
	eventually(t, "hanging", func() bool { return e.Counters().Started == 1 })
	leave()
	<-done
	eventually(t, "cancelled", func() bool { return e.Counters().Cancelled == 1 })
	if c := e.Counters().Cancellations[0]; c.Phase != phaseFault {
		t.Errorf("cancellation %+v", c)
	}
	_, done = open(t, e.URL()+"/echo", "x")
	eventually(t, "hanging again", func() bool { return e.Counters().Started == 2 })
	select {
	case err := <-done:
		t.Fatalf("answered while it hangs: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	setFault(t, e, `{"kind":"none"}`)
	if err := <-done; err != nil {
		t.Errorf("after healing: %v", err)
	}
	if c := e.Counters(); c.Finished != 1 {
		t.Errorf("%+v", c)
	}
}

func TestFaultDelay(t *testing.T) {
	e := start(t, Options{Fault: Fault{Kind: FaultDelay, DurationMillis: 150}})
	begin := time.Now()
	post[completion](t, e.URL()+"/v1/completions", `{"prompt":"x"}`)
	if took := time.Since(begin); took < 150*time.Millisecond {
		t.Errorf("answered after %v", took)
	}
}

func TestFaultClose(t *testing.T) {
	f := func(fault Fault, want error) {
		t.Helper()
		e := start(t, Options{Fault: fault})
		conn, _ := dial(t, e)
		_, _ = io.WriteString(conn, "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}")
		got, err := io.ReadAll(conn)
		if len(got) != 0 || !errors.Is(err, want) {
			t.Errorf("%+v: read %q, error %v, want %v", fault, got, err, want)
		}
		eventually(t, "faulted", func() bool { return e.Counters().Faulted == 1 })
	}
	f(Fault{Kind: FaultClose}, nil)
	f(Fault{Kind: FaultClose, Reset: true}, syscall.ECONNRESET)
}

func TestFaultDie(t *testing.T) {
	f := func(fault Fault, path, body string, wantBytes int) {
		t.Helper()
		e := start(t, Options{Fault: fault})
		response, err := client(t).Post(e.URL()+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		got, err := io.ReadAll(response.Body)
		if err == nil || response.StatusCode != 200 {
			t.Errorf("%s: %s, error %v, want a cut answer", path, response.Status, err)
		}
		// A reset may overtake what was sent before it.
		if !fault.Reset && len(got) != wantBytes {
			t.Errorf("%s: %d bytes, want %d", path, len(got), wantBytes)
		}
		if c := e.Counters(); c.Faulted != 1 || c.Finished != 0 {
			t.Errorf("%s: %+v", path, c)
		}
	}
	f(Fault{Kind: FaultDie, AfterBytes: 100}, "/v1/completions", `{"prompt":"x"}`, 100)
	f(Fault{Kind: FaultDie}, "/v1/completions", `{"prompt":"x"}`, 0)
	f(Fault{Kind: FaultDie, AfterBytes: 1000}, "/v1/completions", `{"prompt":"x","stream":true}`, 1000)
	f(Fault{Kind: FaultDie, AfterBytes: 100, Reset: true}, "/v1/completions", `{"prompt":"x","stream":true}`, 100)
	f(Fault{Kind: FaultDie, AfterBytes: 10}, "/echo", `{}`, 10)
}

func TestIdleClose(t *testing.T) {
	e := start(t, Options{})
	idle, idleReader := dial(t, e)
	exchangeRaw(t, idle, idleReader, "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n")
	eventually(t, "idle", func() bool { return e.Connections().Open == 1 })
	setFault(t, e, `{"kind":"idle-close","duration_ms":100}`) // applies to the connection that idles already
	begin := time.Now()
	if _, err := idleReader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("idle connection: %v, want FIN", err)
	}
	if took := time.Since(begin); took < 50*time.Millisecond {
		t.Errorf("closed after %v, want 100 ms", took)
	}

	// A connection in use outlives the time-out.
	setFault(t, e, `{"kind":"delay","duration_ms":300}`)
	busy, busyReader := dial(t, e)
	exchangeRaw(t, busy, busyReader, "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n")
	if _, err := busyReader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("afterwards: %v, want FIN", err)
	}

	setFault(t, e, `{"kind":"idle-close"}`)
	_, text := send(t, http.MethodGet, e.URL()+"/debug/fault", "")
	if got := decode[debugFault](t, string(text)); got.IdleTimeout != 5000 || got.Request.Kind != FaultDelay {
		t.Errorf("faults in force %+v", got)
	}
}

func TestParseFaultRefuses(t *testing.T) {
	e := start(t, Options{})
	f := func(text, want string) {
		t.Helper()
		r, answer := send(t, http.MethodPost, e.URL()+"/debug/fault", text)
		if r.StatusCode != 400 || !strings.Contains(string(answer), want) {
			t.Errorf("%s: %s %s, want 400 with %q", text, r.Status, answer, want)
		}
	}
	f(``, "cannot read fault")
	f(`{"kind":"status","stauts":503}`, "unknown field")
	f(`{"kind":"hang"} {}`, "more follows")
	f(`{}`, "unknown kind")
	f(`{"kind":"status"}`, "needs one from 400 to 599")
	f(`{"kind":"status","status":200}`, "needs one from 400 to 599")
	f(`{"kind":"hang","status":500}`, "belong to kind")
	f(`{"kind":"delay"}`, "duration_ms")
	f(`{"kind":"hang","after_bytes":5}`, "belongs to kind")
	f(`{"kind":"hang","count":-1}`, "must not be negative")
}
