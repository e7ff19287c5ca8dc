package dataplane

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/cli"
	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/fastproxy"
	"flexinfer.ai/gateway/pkg/routing"
)

func options(t *testing.T, env map[string]string, args ...string) (fastproxy.Options, string, error) {
	t.Helper()
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var f Flags
	f.Bind(flags, cli.Env{Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o, err := f.Options(slog.New(slog.NewTextHandler(&log, nil)))
	return o, log.String(), err
}

// A flag wins over the environment, the environment over the default.
func TestFlags(t *testing.T) {
	env := map[string]string{"PROXY_MAX_QUEUE_SIZE": "7", "PROXY_QUEUE_TIMEOUT": "2s", "PROXY_COLD_START_TIMEOUT": "soon"}
	o, log, err := options(t, env, "--max-queue-size=9", "--connect-timeout=3s", "--max-body-bytes=1000", "--bind=127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	s := o.Settings
	if s.MaxQueueSize != 9 || s.QueueTimeout != 2*time.Second || s.ColdStartTimeout != time.Minute {
		t.Errorf("settings %+v", s)
	}
	if o.Timeouts.Connect != 3*time.Second || o.Timeouts.FirstByte != fastproxy.DefaultTimeouts().FirstByte ||
		o.Limits.BodyBytes != 1000 || o.BindAddress != "127.0.0.1" || o.AdminAddress != DefaultAdminAddress {
		t.Errorf("options %+v", o)
	}
	if !strings.Contains(log, "PROXY_COLD_START_TIMEOUT") {
		t.Errorf("an unusable setting is not warned of: %q", log)
	}
	f := func(want string, args ...string) {
		t.Helper()
		if _, _, err := options(t, nil, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q in it", args, err, want)
		}
	}
	f("--admin", "--admin=localhost")
	f("--bind", "--bind=everywhere")
	f("--port-offset", "--port-offset=70000")
	f(`--label-group-routing: unknown label group mode "random": use one of round-robin, least-loaded`, "--label-group-routing=random")
	if _, _, err := options(t, map[string]string{"FLEXINFER_PROXY_LABEL_GROUP_ROUTING": "random"}); err == nil ||
		!strings.Contains(err.Error(), "FLEXINFER_PROXY_LABEL_GROUP_ROUTING: ") {
		t.Errorf("error %v does not name the variable", err)
	}
	if _, log, _ := options(t, nil, "--max-queue-size=many"); !strings.Contains(log, "--max-queue-size") {
		t.Errorf("an unusable flag is not warned of: %q", log)
	}
}

// What does not compile is left out alone.
func TestApplyLeavesOut(t *testing.T) {
	port := testrig.FreePort(t)
	o, _, err := options(t, nil, "--bind=127.0.0.1", "--admin=", "--shutdown-drain-delay=0s")
	if err != nil {
		t.Fatal(err)
	}
	server, err := fastproxy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	redirect := func(path string, rule routing.Rule) routing.Rule {
		rule.Matches = []routing.Match{{PathType: routing.PathPrefix, Path: path}}
		rule.Filters = []routing.Filter{{Redirect: &routing.RedirectFilter{Hostname: "elsewhere", Status: 302}}}
		return rule
	}
	attached := []routing.Attachment{{Listener: "ns/g/http"}}
	bad := redirect("/bad", routing.Rule{})
	bad.Matches[0].PathType, bad.Matches[0].Path = routing.PathRegex, "("
	cfg := &routing.Config{
		Listeners: []routing.Listener{
			{Key: "ns/g/http", Gateway: "ns/g", Port: port, Protocol: routing.ProtocolHTTP},
			{Key: "ns/g/https", Gateway: "ns/g", Port: testrig.FreePort(t), Protocol: routing.ProtocolHTTPS, Certificates: []string{"Secret/ns/tls"}},
		},
		Routes: []routing.Route{
			{Key: "HTTPRoute/ns/bad", Listeners: attached, Rules: []routing.Rule{bad}},
			{Key: "HTTPRoute/ns/good", Listeners: attached, Rules: []routing.Rule{redirect("/", routing.Rule{})}},
		},
		Certificates: []routing.Certificate{{Key: "Secret/ns/tls", CertPEM: []byte("x"), KeyPEM: []byte("y")}},
	}
	left, err := Apply(server, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, l := range left {
		keys = append(keys, l.Key)
	}
	if got := strings.Join(keys, " "); got != "Secret/ns/tls HTTPRoute/ns/bad" {
		t.Errorf("left out %q", got)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/bad", port))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	client.CloseIdleConnections()
	if response.StatusCode != http.StatusFound {
		t.Errorf("the good route answers %d", response.StatusCode)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := server.Drain(ctx); err != nil {
		t.Error(err)
	}
}
