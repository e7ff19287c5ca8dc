package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
)

// gateway is a running `controller standalone` (or `gateway`) with its files.
type gateway struct {
	*process
	t         *testing.T
	dir       string // the manifests
	url, host string // of the listener
	admin     string // URL
}

// serve starts `controller standalone` on the manifests (file name to content), of
// which %PORT% becomes a free port, and waits until it is ready.
func serve(t *testing.T, manifests map[string]string, flags ...string) *gateway {
	t.Helper()
	return serveEnv(t, nil, manifests, flags...)
}

func serveEnv(t *testing.T, env []string, manifests map[string]string, flags ...string) *gateway {
	t.Helper()
	port, admin := testrig.FreePort(t), fmt.Sprintf("127.0.0.1:%d", testrig.FreePort(t))
	g := &gateway{t: t, dir: t.TempDir(), host: fmt.Sprintf("127.0.0.1:%d", port), admin: "http://" + admin}
	g.url = "http://" + g.host
	for name, content := range manifests {
		g.write(name, strings.ReplaceAll(content, "%PORT%", fmt.Sprint(port)))
	}
	g.process = start(t, "controller", env, append([]string{"standalone",
		"--manifests", g.dir, "--bind", "127.0.0.1", "--admin", admin, "--log-level", "debug"}, flags...)...)
	g.awaitReady()
	return g
}

func (g *gateway) awaitReady() {
	g.t.Helper()
	eventually(g.t, "the gateway is ready", func() bool {
		select {
		case <-g.exited:
			g.t.Fatalf("%s ended at its start", g.name)
		default:
		}
		status, _ := tryGet(g.admin + "/readyz")
		return status == http.StatusOK
	})
}

// write replaces a manifest as an editor does: another file renamed over it.
func (g *gateway) write(name, content string) {
	g.t.Helper()
	path := filepath.Join(g.dir, name)
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		g.t.Fatal(err)
	}
}

// awaitOutput waits for a text in what the gateway has written.
func (g *gateway) awaitOutput(text string) {
	g.t.Helper()
	eventually(g.t, "the gateway writes "+text, func() bool { return strings.Contains(g.output.String(), text) })
}

// answer is a complete answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) engine() string { return a.header.Get("X-Engine") }

// request describes one request of a test.
type request struct {
	method string // empty: POST with a body, else GET
	path   string // empty: /v1/chat/completions
	host   string // empty: the listener's address
	header map[string]string
	body   []byte
}

// do sends a request; an error is a failure.
func (g *gateway) do(r request) answer {
	g.t.Helper()
	a, err := g.try(r)
	if err != nil {
		g.t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	return a
}

// try sends a request from any goroutine.
func (g *gateway) try(r request) (answer, error) {
	if r.path == "" {
		r.path = "/v1/chat/completions"
	}
	if r.method == "" {
		r.method = http.MethodGet
		if r.body != nil {
			r.method = http.MethodPost
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, g.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	if r.host != "" {
		req.Host = r.host
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	response, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, body}, err
}

// client leaves bodies as they come and follows no redirect.
var client = &http.Client{
	Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func tryGet(url string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, ""
	}
	response, err := client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, ""
	}
	return response.StatusCode, string(body)
}
