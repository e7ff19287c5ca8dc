package fastproxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// faultEngine is a raw engine that reads each request whole and then does what
// the test is about.
type faultEngine struct {
	*rawEngine
	requests atomic.Int64 // read whole, on all connections
}

// startFaultEngine answers requests by answer, which gets the connection and the
// number of the request on it, from 0; false ends the connection.
func startFaultEngine(t testing.TB, answer func(c *net.TCPConn, number int) bool) *faultEngine {
	e := &faultEngine{}
	e.rawEngine = startRawEngine(t, func(c *net.TCPConn, _ int) {
		r := bufio.NewReader(c)
		for n := 0; ; n++ {
			if _, err := readRequest(r); err != nil {
				return
			}
			e.requests.Add(1)
			if !answer(c, n) {
				return
			}
		}
	})
	return e
}

// says is an answer that writes text and keeps the connection.
func says(text string) func(*net.TCPConn, int) bool {
	return func(c *net.TCPConn, _ int) bool {
		_, err := io.WriteString(c, text)
		return err == nil
	}
}

// saysAndEnds is an answer that writes text and closes the connection; with
// reset, by a reset.
func saysAndEnds(text string, reset bool) func(*net.TCPConn, int) bool {
	return func(c *net.TCPConn, _ int) bool {
		io.WriteString(c, text)
		if reset {
			c.SetLinger(0)
		}
		return false
	}
}

// protocolFronts are the ways in which a client can come: address of the
// cleartext or the TLS listener, and the client.
type protocolFront struct {
	name   string
	url    string
	http2  bool
	client *http.Client
}

// everyFront adds a TLS listener on a second port to p's configuration, whose
// routes it joins, and returns a client for each protocol.
func everyFront(t testing.TB, p *proxy) []protocolFront {
	t.Helper()
	cert, key := testrig.SelfSigned(t, "a.test")
	secure := testrig.FreePort(t)
	cfg := &p.config
	cfg.Certificates = []routing.Certificate{{Key: "Secret/ns/a", CertPEM: cert, KeyPEM: key}}
	cfg.Listeners = append(cfg.Listeners, routing.Listener{
		Key: "ns/gw/https", Gateway: "ns/gw", Port: secure, Protocol: routing.ProtocolHTTPS,
		Certificates: []string{"Secret/ns/a"},
	})
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		r.Listeners = append(r.Listeners, routing.Attachment{Listener: "ns/gw/https"})
	}
	p.apply()
	plain := "http://" + p.address()
	tls := "https://" + p.Addr(secure).String()
	var h2c http.Protocols
	h2c.SetUnencryptedHTTP2(true)
	fronts := []protocolFront{
		{name: "http1", url: plain, client: &http.Client{Transport: &http.Transport{DisableCompression: true}}},
		{name: "http1-tls", url: tls, client: &http.Client{Transport: tlsTransport("", false)}},
		{name: "http2-tls", url: tls, http2: true, client: &http.Client{Transport: tlsTransport("", true)}},
		{name: "h2c", url: plain, http2: true, client: &http.Client{Transport: &http.Transport{Protocols: &h2c, DisableCompression: true}}},
	}
	for _, f := range fronts {
		f.client.Timeout = 30 * time.Second
		t.Cleanup(f.client.CloseIdleConnections)
	}
	return fronts
}
