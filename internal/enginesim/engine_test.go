package enginesim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// patience bounds every wait of these tests; the machine may be busy.
const patience = 20 * time.Second

func start(t *testing.T, options Options) *Engine {
	t.Helper()
	e := New(options)
	if err := e.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// client has connections of its own, closed with the test.
func client(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

func send(t *testing.T, method, url, body string, header ...string) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	response, err := client(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, answer
}

// post sends body and decodes the JSON answer, which must have status 200.
func post[T any](t *testing.T, url, body string) (answer T) {
	t.Helper()
	response, text := send(t, http.MethodPost, url, body)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("POST %s: %s: %s", url, response.Status, text)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("POST %s: %v in %s", url, err, text)
	}
	return answer
}

type event struct {
	name string
	data string
}

// events splits a whole stream; every event must end in an empty line.
func events(t *testing.T, stream []byte) []event {
	t.Helper()
	if !bytes.HasSuffix(stream, []byte("\n\n")) {
		t.Fatalf("stream does not end in an empty line: %q", stream)
	}
	var all []event
	for block := range strings.SplitSeq(strings.TrimSuffix(string(stream), "\n\n"), "\n\n") {
		var e event
		for line := range strings.SplitSeq(block, "\n") {
			field, value, _ := strings.Cut(line, ": ")
			switch field {
			case "event":
				e.name = value
			case "data":
				e.data = value
			default:
				t.Fatalf("unexpected line %q", line)
			}
		}
		all = append(all, e)
	}
	return all
}

func decode[T any](t *testing.T, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// open sends a POST under a context of its own and returns when the request is
// on its way; the answer's header is awaited in the background.
func open(t *testing.T, url, body string) (leave context.CancelFunc, done <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	c := client(t)
	go func() {
		response, err := c.Do(request)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		ended <- err
	}()
	return cancel, ended
}

func TestQueueAdmitsMaxNumSeqs(t *testing.T) {
	e := start(t, Options{MaxNumSeqs: 2, DecodeTokensPerSecond: 1, TimeScale: 1000})
	var leave []context.CancelFunc
	for range 5 {
		cancel, _ := open(t, e.URL()+"/v1/completions", `{"prompt":"x"}`)
		leave = append(leave, cancel)
	}
	eventually(t, "2 running, 3 waiting", func() bool {
		running, waiting := e.Load()
		return running == 2 && waiting == 3
	})
	_, text := send(t, http.MethodGet, e.URL()+"/metrics", "")
	for _, want := range []string{
		`vllm:num_requests_running{engine="0",model_name="simulated"} 2`,
		`vllm:num_requests_waiting{engine="0",model_name="simulated"} 3`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	for _, cancel := range leave {
		cancel()
	}
	eventually(t, "all gone", func() bool {
		running, waiting := e.Load()
		return running == 0 && waiting == 0 && e.Counters().Cancelled == 5
	})
	phases := map[string]int{}
	for _, c := range e.Counters().Cancellations {
		phases[c.Phase]++
	}
	if phases[phaseQueue] < 1 || phases[phaseDecode] < 1 {
		t.Errorf("cancelled in phases %v", phases)
	}
	if c := e.Cache(); c.InUse != 0 {
		t.Errorf("%d blocks still in use", c.InUse)
	}
}

func TestPrefillTakesTimeForUncachedTokensOnly(t *testing.T) {
	// A prompt of about 4,000 tokens takes 400 ms cold and next to nothing warm.
	e := start(t, Options{PrefillTokensPerSecond: 10_000})
	body := `{"prompt":"` + strings.Repeat("word ", 4000) + `","max_tokens":1}`
	timed := func() time.Duration {
		begin := time.Now()
		post[completion](t, e.URL()+"/v1/completions", body)
		return time.Since(begin)
	}
	cold := timed()
	warm := timed()
	t.Logf("cold %v, warm %v", cold, warm)
	if cold < 395*time.Millisecond {
		t.Errorf("cold prefill took %v, want at least 0.4 s", cold)
	}
	stats := e.Cache()
	if stats.HitTokens < 3900 || stats.HitTokens >= stats.QueriedTokens/2 {
		t.Errorf("cache: %+v, want the second prompt hit and the first not", stats)
	}
}

func TestDecodeKeepsItsPaceAndTimeScaleStretchesIt(t *testing.T) {
	f := func(options Options, atLeast time.Duration) {
		t.Helper()
		e := start(t, options)
		begin := time.Now()
		post[completion](t, e.URL()+"/v1/completions", `{"prompt":"x","max_tokens":21,"ignore_eos":true}`)
		if took := time.Since(begin); took < atLeast {
			t.Errorf("21 tokens took %v, want at least %v", took, atLeast)
		}
	}
	f(Options{DecodeTokensPerSecond: 100}, 200*time.Millisecond)
	f(Options{DecodeTokensPerSecond: 10, TimeScale: 0.1}, 200*time.Millisecond)
}

// The client's leaving is seen in prefill and in mid-stream, at once.
func TestCancellationIsSeenAtOnce(t *testing.T) {
	f := func(phase string, options Options, body string, ready func(e *Engine) bool) {
		t.Helper()
		e := start(t, options)
		var worst time.Duration
		const tries = 10
		for i := range tries {
			leave, done := open(t, e.URL()+"/v1/chat/completions", body)
			eventually(t, phase+" reached", func() bool { return ready(e) })
			left := time.Now()
			leave()
			eventually(t, "cancellation counted", func() bool { return e.Counters().Cancelled == uint64(i+1) })
			<-done
			c := e.Counters().Cancellations[i]
			if c.Phase != phase || c.Method != http.MethodPost || c.Path != "/v1/chat/completions" {
				t.Fatalf("cancellation %+v, want phase %s", c, phase)
			}
			worst = max(worst, c.Seen.Sub(left))
			eventually(t, "slot given back", func() bool { running, _ := e.Load(); return running == 0 })
		}
		t.Logf("%s: worst of %d: %v", phase, tries, worst)
		if c := e.Counters(); c.Started != tries || c.Finished != 0 {
			t.Errorf("%+v, want %d started and cancelled", c, tries)
		}
	}
	body := `{"messages":[{"role":"user","content":"hello"}],"stream":true}`
	f(phasePrefill, Options{PrefillTokensPerSecond: 0.001}, body, func(e *Engine) bool { return len(e.prefillTurn) == 1 })
	f(phaseDecode, Options{DecodeTokensPerSecond: 1, TimeScale: 1000}, body, func(e *Engine) bool {
		running, _ := e.Load()
		return running == 1 && len(e.prefillTurn) == 0 && e.Cache().QueriedTokens > 0
	})
}

func TestStreamArrivesTokenByToken(t *testing.T) {
	e := start(t, Options{DecodeTokensPerSecond: 20, OutputTokens: 10})
	response, err := client(t).Post(e.URL()+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"messages":[{"role":"user","content":"hello"}],"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"role":"assistant"`) {
		t.Fatalf("first line %q", lines.Text())
	}
	if c := e.Counters(); c.Finished != 0 {
		t.Error("the first event came when all were generated")
	}
	last := ""
	for lines.Scan() {
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	if last != "data: [DONE]" || lines.Err() != nil {
		t.Errorf("last line %q, error %v", last, lines.Err())
	}
}

func TestEarlyHeaders(t *testing.T) {
	e := start(t, Options{PrefillTokensPerSecond: 0.001, EarlyHeaders: true})
	response, err := client(t).Post(e.URL()+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("status %d, want 200", response.StatusCode)
	}
	eventually(t, "prefilling after the header went out", func() bool { return len(e.prefillTurn) == 1 })
}

func TestHTTP2WithoutTLS(t *testing.T) {
	e := start(t, Options{HTTP2: true})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: patience}
	response, err := c.Post(e.URL()+"/echo/x", "text/plain", strings.NewReader("abc"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if echo := decode[Echo](t, string(text)); echo.Proto != "HTTP/2.0" || echo.BodyLength != 3 || echo.HeadersAsReceived {
		t.Errorf("echo %+v", echo)
	}
}

func TestStartReportsBadOptions(t *testing.T) {
	f := func(options Options, want string) {
		t.Helper()
		err := New(options).Start("127.0.0.1:0")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start(%+v): %v, want an error with %q", options, err, want)
		}
	}
	f(Options{BlockSize: -1}, "block size is -1")
	f(Options{TimeScale: -2}, "time scale is -2")
	f(Options{ServedModelNames: []string{"a", ""}}, "empty name")
	f(Options{Fault: Fault{Kind: "explode"}}, `unknown kind "explode"`)

	e := start(t, Options{})
	if err := e.Start("127.0.0.1:0"); err == nil {
		t.Error("a second Start went through")
	}
	if err := New(Options{}).Start(e.Addr()); err == nil {
		t.Error("two engines on one address")
	}
}

func TestShutdownWaitsForRunningRequests(t *testing.T) {
	e := start(t, Options{DecodeTokensPerSecond: 100, OutputTokens: 30})
	_, done := open(t, e.URL()+"/v1/completions", `{"prompt":"x","max_tokens":30}`)
	eventually(t, "running", func() bool { running, _ := e.Load(); return running == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the running request was cut: %v", err)
	}
	if c := e.Counters(); c.Finished != 1 {
		t.Errorf("%+v", c)
	}
}
