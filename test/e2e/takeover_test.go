package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
)

// pod is a gateway process at addresses of its own, as a Pod has an IP of its own.
type pod struct {
	*gateway
	addresses map[string]string // of the listeners
	// endpoint: a Service sends new connections here.
	endpoint atomic.Bool
	dialed   atomic.Int64 // connections that clients made
}

// service spreads new connections over its ready pods, as a Kubernetes Service
// does: it learns from /readyz, late, and touches no connection that exists.
type service struct {
	t    *testing.T
	pods []*pod
	next atomic.Int64
}

const (
	probePeriod = 50 * time.Millisecond
	// endpointLag is how late every node's table follows a pod's state; drainDelay
	// is what the pods wait for it.
	endpointLag = 500 * time.Millisecond
	drainDelay  = time.Second
)

// follow keeps the endpoint of p at what its probe says until ctx ends.
func (s *service) follow(ctx context.Context, p *pod) {
	for ctx.Err() == nil {
		code, _ := tryGet(p.admin + "/readyz")
		if ready := code == http.StatusOK; ready != p.endpoint.Load() {
			if !ready {
				time.Sleep(endpointLag)
			}
			p.endpoint.Store(ready)
		}
		time.Sleep(probePeriod)
	}
}

// dial connects to a pod.
func (s *service) dial(ctx context.Context, listener string) (net.Conn, error) {
	n := int(s.next.Add(1))
	for i := range s.pods {
		if p := s.pods[(n+i)%len(s.pods)]; p.endpoint.Load() {
			p.dialed.Add(1)
			var d net.Dialer
			return d.DialContext(ctx, "tcp", p.addresses[listener])
		}
	}
	return nil, errors.New("the service has no endpoint")
}

// offsetPorts finds an offset at which all the ports are free too.
func offsetPorts(t *testing.T, ports ...int) (offset int) {
	t.Helper()
next:
	for offset = 1; offset < 1000; offset++ {
		for _, port := range ports {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+offset))
			if err != nil {
				continue next
			}
			_ = l.Close() // a port that stays taken fails the gateway's start
		}
		return offset
	}
	t.Fatal("no free ports")
	return 0
}

// startPod starts a gateway on the snapshot file; its listeners are offset apart
// from the ports that the snapshot names.
func startPod(t *testing.T, snapshot string, offset int, ports map[string]int) *pod {
	t.Helper()
	admin := fmt.Sprintf("127.0.0.1:%d", testrig.FreePort(t))
	p := &pod{gateway: &gateway{t: t, dir: filepath.Dir(snapshot), admin: "http://" + admin}, addresses: map[string]string{}}
	for name, port := range ports {
		p.addresses[name] = fmt.Sprintf("127.0.0.1:%d", port+offset)
	}
	p.process = start(t, "gateway",
		[]string{"PROXY_SHUTDOWN_DRAIN_DELAY=" + drainDelay.String(), "PROXY_GRACEFUL_SHUTDOWN_TIMEOUT=50s"},
		"--snapshot", snapshot, "--bind", "127.0.0.1", "--admin", admin, "--port-offset", fmt.Sprint(offset))
	return p
}

// TestTakeover: under requests of every protocol, open streams and WebSockets, a
// second gateway starts and the first gets SIGTERM, as when a Deployment rolls.
// No request fails, no stream or WebSocket is cut; the first ends when the last of
// them has, and with 0.
func TestTakeover(t *testing.T) {
	l := &load{t: t, over: make(chan struct{})}
	engines := []replica{{loadEngine(t, "one", l.over), true}, {loadEngine(t, "two", l.over), true}}
	ports := map[string]int{"http": int(testrig.FreePort(t)), "https": int(testrig.FreePort(t))}
	g := &gateway{t: t, dir: t.TempDir()}
	g.write("snapshot.json", string(snapshotOf(t, twoListenersYAML(ports, "")+secretYAML(t)+
		modelYAML("m", strategy("least-loaded"))+serviceYAML(t, "m", engines...)+anyRouteYAML)))
	snapshot := filepath.Join(g.dir, "snapshot.json")
	first := startPod(t, snapshot, 0, ports)
	second := startPod(t, snapshot, offsetPorts(t, ports["http"], ports["https"]), ports)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := &service{t: t, pods: []*pod{first, second}}
	go s.follow(ctx, first)
	eventually(t, "the first gateway is an endpoint", first.endpoint.Load)

	l.fronts = loadFronts(t, s.dial)
	l.dial = func(ctx context.Context) (net.Conn, error) { return s.dial(ctx, "http") }
	l.begin()
	go s.follow(ctx, second)
	eventually(t, "the second gateway is an endpoint", second.endpoint.Load)
	time.Sleep(time.Second)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		first.stop()
	}()
	eventually(t, "the first gateway is no endpoint", func() bool { return !first.endpoint.Load() })
	eventually(t, "the first gateway listens no longer", func() bool {
		c, err := net.Dial("tcp", first.addresses["http"])
		if err == nil {
			_ = c.Close() // it was no client's
		}
		return err != nil
	})
	moved := first.dialed.Load()
	time.Sleep(time.Second)
	select {
	case <-stopped:
		t.Error("the first gateway ended before its streams did")
	default:
	}
	l.end()
	ended := time.Now()
	<-stopped
	t.Logf("connections: %d to the first gateway, %d to the second; the first ended %v after its last stream",
		first.dialed.Load(), second.dialed.Load(), time.Since(ended).Round(time.Millisecond))
	if first.dialed.Load() != moved || second.dialed.Load() == 0 {
		t.Error("the second gateway did not take over")
	}
	if lost := total(second.scrape(), "flexinfer_proxy_requests_total", "status", "499"); lost > 0 {
		t.Errorf("%v clients of the second gateway went away", lost)
	}
}

// twoListenersYAML is a Gateway "g" with an HTTP and an HTTPS listener and more.
func twoListenersYAML(ports map[string]int, more string) string {
	return fmt.Sprintf(`---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g}
spec:
  gatewayClassName: flexinfer
  listeners:
    - {name: http, port: %d, protocol: HTTP}
    - {name: https, port: %d, protocol: HTTPS, tls: {certificateRefs: [{name: certificate}]}}
%s`, ports["http"], ports["https"], more)
}

// anyRouteYAML sends everything to the Model "m".
const anyRouteYAML = `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: any}
spec:
  parentRefs: [{name: g}]
  rules:
    - backendRefs: [{group: inference.flexinfer.ai, kind: Model, name: m}]
`

// secretYAML is a new certificate for gateway.test.
func secretYAML(t *testing.T) string {
	t.Helper()
	cert, key := testrig.SelfSigned(t, "gateway.test")
	indented := func(pem []byte) string {
		return "    " + strings.ReplaceAll(strings.TrimSpace(string(pem)), "\n", "\n    ") + "\n"
	}
	return "---\napiVersion: v1\nkind: Secret\nmetadata: {name: certificate}\ntype: kubernetes.io/tls\nstringData:\n" +
		"  tls.crt: |\n" + indented(cert) + "  tls.key: |\n" + indented(key)
}
