package fastproxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"flexinfer.ai/gateway/pkg/routing"
)

// proxy is a whole data plane under test, on loopback, in front of engines that
// the test made.
type proxy struct {
	*Server
	t      testing.TB
	port   uint16
	config routing.Config
}

// startProxy serves cfg, whose listener must be on port; edit may change the
// options first.
func startProxy(t testing.TB, cfg routing.Config, port uint16, edit func(*Options)) *proxy {
	t.Helper()
	p := &proxy{Server: startServer(t, edit), t: t, port: port, config: cfg}
	p.apply()
	return p
}

// startServer starts a data plane on loopback, without a drain delay, and ends
// it with the test; edit, which may be nil, changes its options first.
func startServer(t testing.TB, edit func(*Options)) *Server {
	t.Helper()
	o := Options{BindAddress: "127.0.0.1", Settings: routing.DefaultSettings()}
	o.Settings.ShutdownDrainDelay = 0
	if edit != nil {
		edit(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s.Drain(ctx)
	})
	return s
}

// apply serves p.config as it stands now.
func (p *proxy) apply() {
	p.t.Helper()
	p.config.Generation++
	if err := p.Apply(&p.config); err != nil {
		p.t.Fatal(err)
	}
}

func (p *proxy) address() string     { return fmt.Sprintf("127.0.0.1:%d", p.port) }
func (p *proxy) url(s string) string { return "http://" + p.address() + s }

// oneModel is a Config of one HTTP listener whose every path goes to the Model
// ns/m with the given strategy and endpoints.
func oneModel(port uint16, strategy routing.Strategy, endpoints ...string) routing.Config {
	cfg := routing.Config{
		Listeners: []routing.Listener{{Key: "ns/gw/http", Gateway: "ns/gw", Port: port, Protocol: routing.ProtocolHTTP}},
		Routes: []routing.Route{{
			Key:       "HTTPRoute/ns/r",
			Listeners: []routing.Attachment{{Listener: "ns/gw/http"}},
			Rules:     []routing.Rule{{Backends: []routing.BackendRef{{Backend: "Model/ns/m", Weight: 1}}}},
		}},
		Backends: []routing.Backend{{
			Key: "Model/ns/m", Kind: routing.BackendModel, Namespace: "ns", Name: "m",
			Strategy: strategy, Endpoints: "Model/ns/m", DecodeRequests: true,
		}},
		EndpointLists: []routing.EndpointList{{Key: "Model/ns/m"}},
	}
	for _, e := range endpoints {
		cfg.EndpointLists[0].Endpoints = append(cfg.EndpointLists[0].Endpoints,
			routing.Endpoint{Address: e, State: routing.EndpointReady})
	}
	return cfg
}

// startEngine serves h on loopback and returns its address.
func startEngine(t testing.TB, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	return ln.Addr().String()
}

// newClient is an HTTP client with a pool of its own.
func newClient(t testing.TB) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 256}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// post sends a JSON body to the proxy and returns the response, whose body the
// caller closes.
func (p *proxy) post(c *http.Client, path, body string, header ...string) *http.Response {
	p.t.Helper()
	req, err := http.NewRequest("POST", p.url(path), strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp
}

// loads sums what the live backends hold of the ledgers.
func (p *proxy) loads() (sum int64) {
	for _, b := range p.snapshot().Backends() {
		sum += b.State.Active()
		for _, t := range b.Ready {
			sum += t.Active() + t.Reserved()
		}
	}
	return sum
}

// tlsTransport speaks TLS for the server name sni without checking certificates.
func tlsTransport(sni string, h2 bool) *http.Transport {
	return &http.Transport{
		ForceAttemptHTTP2: h2,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, ServerName: sni},
	}
}
