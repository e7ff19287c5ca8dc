package fastproxy

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// TestHTTP10WithoutHost: HTTP/1.0 needs no Host, but the engine is spoken to in
// HTTP/1.1, which does.
func TestHTTP10WithoutHost(t *testing.T) {
	engine := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "host="+r.Host)
	}))
	port := testrig.FreePort(t)
	p := startProxy(t, oneModel(port, routing.StrategyDefault, engine), port, nil)
	f := func(field, want string) {
		t.Helper()
		c, err := net.Dial("tcp", p.address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(c, "POST /v1/completions HTTP/1.0\r\n"+field+"Content-Length: 2\r\n\r\n{}")
		got, _ := io.ReadAll(c)
		if !strings.HasPrefix(string(got), "HTTP/1.1 200 ") || !strings.HasSuffix(string(got), want) {
			t.Errorf("%q: got %q, want 200 and %q", field, got, want)
		}
	}
	f("", "host="+engine)
	f("Host: models.example\r\n", "host=models.example")
}
