package h2spec

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
)

// patience bounds every wait for something that must happen.
const patience = 60 * time.Second

// answer is the engine's handler and the bare server's: a body long enough for
// the cases about flow control, after the request's, if it has any.
func answer(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, strings.Repeat("an answer\n", 20))
}

// target is a server that h2spec speaks to.
func target(address net.Addr, secure bool) *config.Config {
	a := address.(*net.TCPAddr)
	return &config.Config{
		Host: a.IP.String(), Port: a.Port, Path: "/", Timeout: answerWait,
		MaxHeaderLen: 4000, TLS: secure, Insecure: true, Strict: true,
	}
}

// listen opens a free port on loopback.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// startHTTP serves answer by net/http with the given protocols; with a
// certificate over TLS.
func startHTTP(t *testing.T, protocols func(*http.Protocols), cert *tls.Certificate) net.Addr {
	t.Helper()
	s := &http.Server{Handler: http.HandlerFunc(answer), Protocols: new(http.Protocols), ErrorLog: log.New(io.Discard, "", 0)}
	protocols(s.Protocols)
	l := listen(t)
	if cert != nil {
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*cert}}
		go s.ServeTLS(l, "", "")
	} else {
		go s.Serve(l)
	}
	t.Cleanup(func() { s.Close() })
	return l.Addr()
}

// startBare starts the servers that the product is judged by.
func startBare(t *testing.T, cert tls.Certificate) (plain, secure *config.Config) {
	t.Helper()
	return target(startHTTP(t, func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }, nil), false),
		target(startHTTP(t, func(p *http.Protocols) { p.SetHTTP2(true) }, &cert), true)
}

const manifests = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g}
spec:
  gatewayClassName: flexinfer
  listeners:
    - {name: http, port: %PLAIN%, protocol: HTTP}
    - {name: https, port: %SECURE%, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}
---
apiVersion: v1
kind: Secret
metadata: {name: cert}
type: kubernetes.io/tls
stringData:
  tls.crt: |
    %CERT%
  tls.key: |
    %KEY%
---
apiVersion: v1
kind: Service
metadata: {name: engine}
spec:
  clusterIP: 127.0.0.1
  ports: [{name: http, port: %ENGINE%}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: engine-1, labels: {kubernetes.io/service-name: engine}}
addressType: IPv4
ports: [{name: http, port: %ENGINE%}]
endpoints: [{addresses: [127.0.0.1], conditions: {ready: true}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r}
spec:
  parentRefs: [{name: g}]
  rules: [{backendRefs: [{name: engine, port: %ENGINE%}]}]
`

// startProduct builds and starts the product in front of an engine.
func startProduct(t *testing.T, certPEM, keyPEM string) (plain, secure *config.Config) {
	t.Helper()
	engine := startHTTP(t, func(p *http.Protocols) { p.SetHTTP1(true) }, nil)
	a, b := listen(t), listen(t)
	defer a.Close()
	defer b.Close()
	plain, secure = target(a.Addr(), false), target(b.Addr(), true)
	indent := func(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n    ") }
	text := strings.NewReplacer("%PLAIN%", strconv.Itoa(plain.Port), "%SECURE%", strconv.Itoa(secure.Port),
		"%ENGINE%", strconv.Itoa(engine.(*net.TCPAddr).Port), "%CERT%", indent(certPEM), "%KEY%", indent(keyPEM)).Replace(manifests)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "controller")
	build := exec.Command("go", "build", "-o", program, "./cmd/controller")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the product: %v\n%s", err, out)
	}
	a.Close()
	b.Close()
	run(t, program, "standalone", "--manifests", dir, "--bind", "127.0.0.1", "--admin", "")
	for _, c := range []*config.Config{plain, secure} {
		await(t, c)
	}
	return plain, secure
}

// run starts a program that ends with the test, by SIGTERM and with code 0.
func run(t *testing.T, program string, args ...string) {
	t.Helper()
	var output strings.Builder
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "PROXY_SHUTDOWN_DRAIN_DELAY=10ms", "PROXY_GRACEFUL_SHUTDOWN_TIMEOUT=5s")
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		force := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer force.Stop()
		if err := cmd.Wait(); err != nil || strings.Contains(output.String(), "panic") {
			t.Errorf("the product did not end well: %v\n%s", err, output.String())
		}
	})
}

// await waits until the product answers through its engine, by HTTP/2.
func await(t *testing.T, c *config.Config) {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	tr.Protocols.SetHTTP2(c.TLS)
	tr.Protocols.SetUnencryptedHTTP2(!c.TLS)
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr, Timeout: patience}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		resp, err := client.Get(c.Scheme() + "://" + c.Addr() + "/")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == 200 && resp.ProtoMajor == 2 {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("the product does not answer: %v %v", resp, err)
		}
	}
}

// selfSigned makes a certificate for 127.0.0.1.
func selfSigned(t *testing.T) (cert tls.Certificate, certPEM, keyPEM string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "h2spec"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	keyPEM = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	if cert, err = tls.X509KeyPair([]byte(certPEM), []byte(keyPEM)); err != nil {
		t.Fatal(err)
	}
	return cert, certPEM, keyPEM
}
