package fastproxy

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// tlsSocket compiles a port with one HTTPS listener for each hostname, with a
// new certificate, and returns the pool that trusts them.
func tlsSocket(t testing.TB, hostnames ...string) (*routing.Socket, *x509.CertPool) {
	t.Helper()
	cfg := &routing.Config{}
	pool := x509.NewCertPool()
	for _, h := range hostnames {
		name := h
		if h == "" {
			name = "any.example"
		}
		cert, key := testrig.SelfSigned(t, name)
		pool.AppendCertsFromPEM(cert)
		k := "Secret/ns/" + strings.ReplaceAll(name, "*", "x")
		cfg.Certificates = append(cfg.Certificates, routing.Certificate{Key: k, CertPEM: cert, KeyPEM: key})
		cfg.Listeners = append(cfg.Listeners, routing.Listener{
			Key: "ns/gw/" + strings.ReplaceAll(name, "*", "x"), Gateway: "ns/gw", Port: testPort,
			Protocol: routing.ProtocolHTTPS, Hostname: h, Certificates: []string{k},
		})
	}
	o := routing.DefaultOptions()
	s, err := routing.Compile(cfg, &o, nil, routing.NewRegistry(routing.Hooks{}))
	if err != nil {
		t.Fatal(err)
	}
	return s.Socket(testPort), pool
}

// listenerCore answers with the listener that the handshake chose.
func listenerCore(x *exchange) {
	x.resp.header.SetStatusCode(200)
	x.resp.body = []byte(x.sniListener)
	if !x.req.tls {
		x.resp.body = []byte("clear text")
	}
}

func TestTLSListenerBySNI(t *testing.T) {
	tc := &testCore{answer: listenerCore}
	socket, pool := tlsSocket(t, "a.example", "*.b.example")
	tc.socket.Store(socket)
	f, addr := testFront(t, tc, nil)
	get := func(sni string, protos ...string) (string, *tls.ConnectionState, error) {
		c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, ServerName: sni, NextProtos: protos})
		if err != nil {
			return "", nil, err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		sendRaw(t, c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		_, body := readAnswer(t, bufio.NewReader(c), "GET")
		state := c.ConnectionState()
		return body, &state, nil
	}
	if body, state, err := get("A.Example", "http/1.1"); err != nil || body != "ns/gw/a.example" || state.NegotiatedProtocol != "http/1.1" {
		t.Errorf("%q %v", body, err)
	}
	if body, _, err := get("c.b.example"); err != nil && !strings.Contains(err.Error(), "valid for") || err == nil && body != "ns/gw/x.b.example" {
		t.Errorf("%q %v", body, err)
	}
	if _, _, err := get("other.example"); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("unknown name: %v, want the alert unrecognized_name", err)
	}
	if _, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, ServerName: "a.example", MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	waitUntil(t, "failed handshakes are counted", func() bool { return f.counters.tlsFailed.Load() >= 2 })
}

func TestTLSHTTP2(t *testing.T) {
	tc := &testCore{answer: listenerCore}
	socket, pool := tlsSocket(t, "a.example")
	tc.socket.Store(socket)
	_, addr := testFront(t, tc, nil)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "a.example"}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	for range 3 {
		resp, err := (&http.Client{Transport: tr, Timeout: 20 * time.Second}).Get("https://" + addr + "/")
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, 100)
		n, _ := resp.Body.Read(body)
		resp.Body.Close()
		if resp.ProtoMajor != 2 || string(body[:n]) != "ns/gw/a.example" {
			t.Errorf("%s %q", resp.Proto, body[:n])
		}
	}
}

// TestTLSSwap holds that a new certificate counts from the next handshake on,
// that open connections stay, and that sessions resume across the swap.
func TestTLSSwap(t *testing.T) {
	tc := &testCore{answer: listenerCore}
	first, pool := tlsSocket(t, "a.example")
	tc.socket.Store(first)
	_, addr := testFront(t, tc, nil)
	cache := tls.NewLRUClientSessionCache(4)
	connect := func(pool *x509.CertPool, cache tls.ClientSessionCache) (*tls.Conn, *bufio.Reader) {
		t.Helper()
		c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, ServerName: "a.example", ClientSessionCache: cache})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		return c, bufio.NewReader(c)
	}
	get := func(c *tls.Conn, br *bufio.Reader) {
		t.Helper()
		sendRaw(t, c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		readAnswer(t, br, "GET")
	}
	old, oldReader := connect(pool, cache)
	get(old, oldReader)
	second, secondPool := tlsSocket(t, "a.example")
	tc.socket.Store(second)
	get(old, oldReader)
	resumed, resumedReader := connect(pool, cache)
	get(resumed, resumedReader)
	if !resumed.ConnectionState().DidResume {
		t.Error("the session was not resumed after the swap")
	}
	fresh, freshReader := connect(secondPool, nil)
	get(fresh, freshReader)
}

func TestTLSSilentClient(t *testing.T) {
	tc := &testCore{answer: listenerCore}
	socket, _ := tlsSocket(t, "a.example")
	tc.socket.Store(socket)
	_, addr := testFront(t, tc, func(o *Options) { o.Timeouts.Handshake = 200 * time.Millisecond })
	if got := exchangeRaw(t, addr, ""); got != "" {
		t.Errorf("got %q", got)
	}
	if got := exchangeRaw(t, addr, "\x16\x03\x01"); strings.Contains(got, "HTTP") {
		t.Errorf("got %q", got)
	}
}
