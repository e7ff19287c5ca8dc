package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/cli"
	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/publish"
	"flexinfer.ai/gateway/pkg/routing"
)

// redirecting is a Config with one listener that answers by itself.
func redirecting(port uint16, to string) *routing.Config {
	return &routing.Config{
		Generation: 1,
		Listeners: []routing.Listener{
			{Key: "ns/g/http", Gateway: "ns/g", Port: port, Protocol: routing.ProtocolHTTP},
		},
		Routes: []routing.Route{{Key: "HTTPRoute/ns/r", Listeners: []routing.Attachment{{Listener: "ns/g/http"}}, Rules: []routing.Rule{{
			Filters: []routing.Filter{{Redirect: &routing.RedirectFilter{Hostname: to, Status: 302}}},
		}}}},
	}
}

// controller is a running publish.Publisher with its files.
type controller struct {
	*publish.Publisher
	address, ca, token string
	stop               func()
}

func startController(t *testing.T) *controller {
	t.Helper()
	p, err := publish.New(publish.Options{
		Logger: slog.New(slog.DiscardHandler), Instance: "one", ServerNames: []string{"controller.test"},
		Authenticate: func(_ context.Context, token, _ string) (publish.Identity, error) {
			if token != "good" {
				return publish.Identity{}, publish.ErrUnauthenticated
			}
			return publish.Identity{Gateway: "ns/g", Pod: "g-1"}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := publish.GenerateAuthority()
	if err != nil {
		t.Fatal(err)
	}
	authority, err := publish.NewAuthority(cert, key, cert)
	if err != nil {
		t.Fatal(err)
	}
	p.SetAuthority(authority)
	dir := t.TempDir()
	c := &controller{Publisher: p, ca: filepath.Join(dir, "ca.crt"), token: filepath.Join(dir, "token")}
	if err := errors.Join(os.WriteFile(c.ca, cert, 0o600), os.WriteFile(c.token, []byte("good"), 0o600)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, l) }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(c.stop)
	return c
}

// startGateway runs the program; stop sends what SIGTERM would.
func startGateway(t *testing.T, args ...string) (log *testrig.Log, stop func()) {
	t.Helper()
	log = &testrig.Log{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	env := cli.Env{Stdout: io.Discard, Stderr: log, Lookup: func(string) (string, bool) { return "", false }}
	go func() { done <- command().Main(ctx, env, args) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if code := <-done; code != 0 {
			t.Errorf("exit %d: %s", code, log)
		}
	})
	t.Cleanup(stop)
	return log, stop
}

// answersWith waits until the gateway redirects to a host.
func answersWith(t *testing.T, port uint16, host string) {
	t.Helper()
	client := &http.Client{
		Timeout:       time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DisableKeepAlives: true},
	}
	var got string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
		if err != nil {
			got = err.Error()
			continue
		}
		_ = response.Body.Close()
		if got = response.Header.Get("Location"); strings.Contains(got, host) {
			return
		}
	}
	t.Fatalf("no redirect to %s within 20 s: %s", host, got)
}

// The gateway serves what its controller sends, tells what became of it, and
// without the controller starts with what it served last.
func TestSubscribe(t *testing.T) {
	c := startController(t)
	port := testrig.FreePort(t)
	first := redirecting(port, "first.example")
	first.Certificates = []routing.Certificate{{Key: "Secret/ns/tls", CertPEM: []byte("x"), KeyPEM: []byte("y")}}
	c.Publish("ns/g", first)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	args := []string{
		"--controller=" + c.address, "--controller-server-name=controller.test", "--controller-ca=" + c.ca, "--token=" + c.token,
		"--snapshot=" + snapshot, "--bind=127.0.0.1", "--admin=", "--shutdown-drain-delay=0s",
	}
	log, stop := startGateway(t, args...)
	answersWith(t, port, "first.example")
	refused := func() []publish.Refusal {
		if pods := c.State("ns/g").Pods; len(pods) == 1 {
			return pods[0].Refused
		}
		return nil
	}
	for end := time.Now().Add(20 * time.Second); len(refused()) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if r := refused(); len(r) != 1 || r[0].Key != "Secret/ns/tls" || r[0].Version != publish.ResourceVersion(first, "Secret/ns/tls") {
		t.Errorf("the broken certificate is not refused: %+v", r)
	}
	c.Publish("ns/g", redirecting(port, "second.example"))
	answersWith(t, port, "second.example")
	stop()
	c.stop()
	if strings.Contains(log.String(), "good\"") {
		t.Error("the token is in the log")
	}
	if info, err := os.Stat(snapshot); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("snapshot file: %v %v", info, err)
	}

	_, stop = startGateway(t, args...)
	answersWith(t, port, "second.example")
	stop()

	// A file of no use is no obstacle, and said.
	if err := os.WriteFile(snapshot, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	log, stop = startGateway(t, args...)
	defer stop()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if strings.Contains(log.String(), "no stream to the controller") && strings.Contains(log.String(), "cannot be used") {
			return
		}
	}
	t.Errorf("log: %s", log)
}

// Keys are kept only in memory.
func TestLastGoodKeys(t *testing.T) {
	cfg := redirecting(80, "x.example")
	cfg.Listeners = append(cfg.Listeners, routing.Listener{
		Key: "ns/g/https", Gateway: "ns/g", Port: 443, Protocol: routing.ProtocolHTTPS, Certificates: []string{"Secret/ns/tls"},
	})
	cfg.Certificates = []routing.Certificate{{Key: "Secret/ns/tls", CertPEM: []byte("x"), KeyPEM: []byte("y")}}
	l := &lastGood{}
	if kept := l.keeps(cfg); len(kept.Certificates) != 0 || len(kept.Listeners) != 1 || len(cfg.Certificates) != 1 {
		t.Errorf("kept %d certificates, %d listeners", len(kept.Certificates), len(kept.Listeners))
	}
	l.keys = true
	if kept := l.keeps(cfg); len(kept.Certificates) != 1 {
		t.Error("the certificate is not kept")
	}
}

func TestFlagErrors(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		var log testrig.Log
		env := cli.Env{Stdout: io.Discard, Stderr: &log, Lookup: func(string) (string, bool) { return "", false }}
		if code := command().Main(t.Context(), env, args); code == 0 || !strings.Contains(log.String(), want) {
			t.Errorf("%q: exit %d, %q; want %q in it", args, code, log.String(), want)
		}
	}
	f("nothing to serve")
	f("--controller=HOST:PORT", "--token=/x")
	f("no HOST:PORT", "--controller=elsewhere")
	f("--controller-ca=FILE", "--controller=c:1")
	f("--token=FILE", "--controller=c:1", "--controller-ca=/ca")
}
