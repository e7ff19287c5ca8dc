package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// answer is what came of one request.
type answer struct {
	status int
	engine string // the pod that answered
	body   []byte
}

// target is a Gateway as clients see it.
type target struct {
	url    string
	client *http.Client
}

// newTarget makes clients of a Gateway's address ("ip:port"), once it takes
// connections: kube-proxy may hear of a ready pod after the controller has.
func newTarget(t *testing.T, address string) *target {
	t.Helper()
	eventually(t, func() string {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return errorText(err)
	})
	transport := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &target{url: "http://" + address, client: &http.Client{Transport: transport}}
}

// chat asks a Model for a short answer. Empty session: none is sent.
func (g *target) chat(ctx context.Context, model, session, prompt string, tokens int, stream bool) (*http.Response, error) {
	body, err := json.Marshal(map[string]any{
		"model": model, "max_tokens": tokens, "stream": stream,
		"messages": []map[string]string{{"role": "system", "content": prompt}, {"role": "user", "content": "Hello"}},
	})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if session != "" {
		request.Header.Set("X-Session-Id", session)
	}
	return g.client.Do(request)
}

// ask sends one request and reads its whole answer.
func (g *target) ask(ctx context.Context, model, session, prompt string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	response, err := g.chat(ctx, model, session, prompt, 4, false)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header.Get("X-Engine"), body}, err
}

// reaches waits until a Gateway serves a Model.
func (g *target) reaches(t *testing.T, model string) {
	t.Helper()
	eventually(t, func() string {
		a, err := g.ask(t.Context(), model, "first", "")
		if err != nil || a.status != http.StatusOK {
			return fmt.Sprintf("%s is not served: %d %s %v", model, a.status, a.body, err)
		}
		return ""
	})
}

// load is clients that send requests, and others that read streams, until it is
// ended. What goes wrong is a failure.
type load struct {
	target   *target
	models   []string // of the requests
	streamed string   // the Model of the streams
	workers  int
	streams  int
	tokens   int           // of each stream
	pace     time.Duration // between two requests of one worker

	stop     chan struct{}
	clients  sync.WaitGroup
	requests atomic.Int64
	ended    atomic.Int64 // streams that were read to their end

	mu       sync.Mutex
	failures []string
	engines  map[string]string   // the engine that a session's last answer came from
	moves    map[string][]string // by session, the engines in the order they answered
}

// start starts the clients. Each worker has a session per Model.
func (l *load) start() {
	l.stop = make(chan struct{})
	l.engines, l.moves = map[string]string{}, map[string][]string{}
	for n := range l.workers {
		l.clients.Go(func() { l.work(n) })
	}
	for n := range l.streams {
		l.clients.Go(func() { l.read(n) })
	}
}

// end ends the load when at least that many requests were sent, and waits for
// the streams to end as well.
func (l *load) end(t *testing.T, requests int64) {
	t.Helper()
	for end := time.Now().Add(3 * patience); l.requests.Load() < requests && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
	}
	l.cease()
	if n := l.requests.Load(); n < requests {
		t.Errorf("only %d of %d requests were sent", n, requests)
	}
}

// cease ends the load and waits for its clients. It may be called again.
func (l *load) cease() {
	if !l.over() {
		close(l.stop)
	}
	l.clients.Wait()
}

// failed returns what went wrong so far.
func (l *load) failed() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.failures...)
}

// mustHold fails the test where any request or stream failed.
func (l *load) mustHold(t *testing.T) {
	t.Helper()
	failures := l.failed()
	for i, f := range failures {
		if i == 10 {
			break
		}
		t.Error(f)
	}
	if len(failures) > 0 {
		t.Errorf("%d failures in %d requests, %d whole streams", len(failures), l.requests.Load(), l.ended.Load())
	}
	t.Logf("%d requests, %d whole streams, %d failures", l.requests.Load(), l.ended.Load(), len(failures))
}

// sessions is where each session was answered last.
func (l *load) sessions() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.engines)
}

func (l *load) over() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (l *load) work(n int) {
	for i := n; !l.over(); i++ {
		model := l.models[i%len(l.models)]
		session := fmt.Sprintf("%s/%d", model, n)
		a, err := l.target.ask(context.Background(), model, session, "You are number "+session)
		l.requests.Add(1)
		switch {
		case err != nil:
			l.fail("request: %v", err)
		case a.status != http.StatusOK:
			l.fail("request: %d from %q: %s", a.status, a.engine, a.body)
		default:
			l.note(session, a.engine)
		}
		time.Sleep(l.pace)
	}
}

func (l *load) note(session, engine string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.engines[session] != engine {
		l.engines[session] = engine
		l.moves[session] = append(l.moves[session], engine)
	}
}

// read reads one stream after the other to its end.
func (l *load) read(n int) {
	for !l.over() {
		if err := l.stream(l.streamed, fmt.Sprintf("stream-%d", n)); err != nil {
			l.fail("stream: %v", err)
			continue
		}
		l.ended.Add(1)
	}
}

func (l *load) stream(model, session string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	response, err := l.target.chat(ctx, model, session, "You are "+session, l.tokens, true)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%d: %s", response.StatusCode, body)
	}
	lines := bufio.NewScanner(response.Body)
	events, done := 0, false
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			events++
			done = data == "[DONE]"
		}
	}
	if lines.Err() != nil || !done {
		return fmt.Errorf("a stream of %s was cut after %d events: %w", response.Header.Get("X-Engine"), events, lines.Err())
	}
	return nil
}
