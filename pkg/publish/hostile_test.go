package publish

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"flexinfer.ai/gateway/pkg/routing"
)

// subscriberOf is a Subscriber that takes what it is given by hand.
func subscriberOf(t *testing.T, initial *routing.Config, apply func(*routing.Config) Applied) *Subscriber {
	t.Helper()
	s, err := NewSubscriber(SubscriberOptions{
		Logger: slog.New(slog.DiscardHandler), Controller: "localhost:1", Initial: initial, Apply: apply,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A change that does not add up leaves what is served as it is, also where that
// is due to be applied again, and then everything is taken anew.
func TestGarbageGoesUnserved(t *testing.T) {
	var served *routing.Config
	s := subscriberOf(t, config(1, "10.0.0.1:80"), func(cfg *routing.Config) Applied {
		served = cfg
		return Applied{Error: errors.New("port 80 is taken"), Retry: time.Nanosecond}
	})
	s.begin()
	if err := s.take(nil, nil, whole{Version: "another"}); err == nil {
		t.Error("a whole that is not was taken")
	}
	s.reapply()
	if len(served.Routes) != 1 || len(served.Listeners) != 1 {
		t.Errorf("after garbage %d routes and %d listeners are served", len(served.Routes), len(served.Listeners))
	}
	if n := len(s.held()); n != 0 {
		t.Errorf("%d resources are said to be held after garbage", n)
	}
	next, err := newRevision(config(2, "10.0.0.2:80"), nil)
	if err != nil {
		t.Fatal(err)
	}
	set, removed := difference(nil, next)
	set = set[1:] // not all of it
	if err := s.take(set, removed, next.whole); err == nil {
		t.Error("a part was taken for the whole")
	}
	set, removed = difference(nil, next)
	if err := s.take(set, removed, next.whole); err != nil || served.EndpointLists[0].Endpoints[0].Address != "10.0.0.2:80" {
		t.Errorf("the whole: %v, served %+v", err, served.EndpointLists)
	}
	if n := len(s.held()); n != len(next.resources) {
		t.Errorf("%d resources are said to be held, want %d", n, len(next.resources))
	}
}

// What cannot be read stays refused while it is held, whatever else changes.
func TestUnreadableStaysRefused(t *testing.T) {
	s := subscriberOf(t, config(1, "10.0.0.1:80"), func(*routing.Config) Applied { return Applied{} })
	text := []byte(`{"Key":"HTTPRoute/ns/new","Teleport":true}`)
	change := func(cfg *routing.Config) {
		t.Helper()
		next, err := newRevision(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		id := resourceID{kindRoute, "HTTPRoute/ns/new"}
		next.resources[id] = &resource{ID: id, Version: contentVersion(text), Content: text}
		next.Version = wholeVersion(next.resources)
		set, removed := difference(s.held(), next)
		if err := s.take(set, removed, next.whole); err != nil {
			t.Fatal(err)
		}
		if len(s.ack.Refused) != 1 || s.ack.Refused[0].Key != id.Key || s.ack.Error == "" {
			t.Errorf("acknowledged %+v", s.ack)
		}
	}
	change(config(2, "10.0.0.1:80"))
	change(config(3, "10.0.0.2:80"))
}

// hostile is a gateway pod that has enrolled and says what it likes.
func (in *installation) hostile(t *testing.T, r *replica, who Identity) (grpc.ClientStream, *grpc.ClientConn) {
	t.Helper()
	a, err := NewAuthority(in.cert, in.key, in.cert)
	if err != nil {
		t.Fatal(err)
	}
	e := &enrollment{caFile: in.caFile, serverName: serverName}
	conn, err := e.dial(r.address, forge(t, a, who))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := conn.NewStream(t.Context(), &serviceDesc.Streams[0], subscribeMethod, grpc.UseCompressor(zstdName))
	if err != nil {
		t.Fatal(err)
	}
	return stream, conn
}

// A pod that says to hold the world costs the controller a bounded amount of
// memory, and its stream.
func TestHeldIsBounded(t *testing.T) {
	in := newInstallation(t)
	r := in.replica("one")
	stream, _ := in.hostile(t, r, Identity{"ns/a", "a-1"})
	name := strings.Repeat("x", 1<<20)
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		err = stream.SendMsg(&upstream{Held: map[resourceID]string{{kindRoute, name[i:]}: "v"}})
	}
	if !errors.Is(err, io.EOF) {
		t.Fatalf("the pod may say to hold a gigabyte: %v", err)
	}
	var m downstream
	for err = stream.RecvMsg(&m); err == nil; err = stream.RecvMsg(&m) {
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("the stream ended with %v", err)
	}
}

// A pod that never reads holds up nobody, and its stream ends where it must.
func TestNeverReads(t *testing.T) {
	in := newInstallation(t)
	r := in.replica("one")
	big := config(1, "10.0.0.1:80")
	big.Certificates[0].CertPEM = make([]byte, 2<<20)
	_, _ = rand.Read(big.Certificates[0].CertPEM) // so that it does not compress
	r.Publish("ns/a", big)
	stream, _ := in.hostile(t, r, Identity{"ns/a", "a-1"})
	if err := stream.SendMsg(&upstream{Follow: true}); err != nil {
		t.Fatal(err)
	}
	subscriptions := func() map[*subscription]bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		all := map[*subscription]bool{}
		if g := r.gateways["ns/a"]; g != nil {
			for _, s := range g.subscriptions {
				all[s] = true
			}
		}
		return all
	}
	eventually(t, "subscribed", func() bool { return len(subscriptions()) == 1 })
	in.pod(r.address, "token-a2", nil).serves(t, big)
	for range 5 {
		again, _ := in.hostile(t, r, Identity{"ns/a", "a-1"})
		if err := again.SendMsg(&upstream{Follow: true}); err != nil {
			t.Fatal(err)
		}
	}
	streams := func() float64 { return testutil.ToFloat64(r.metrics.streams) }
	eventually(t, "one stream of each pod is left", func() bool { return streams() == 2 })
	for s := range subscriptions() {
		s.cancel(errExpired)
	}
	eventually(t, "no stream outlives its certificate", func() bool { return len(subscriptions()) <= 1 && streams() <= 1 })
}

// Pods whose certificate a CA that is no more has signed get another one as soon
// as they know the new CA.
func TestNewCA(t *testing.T) {
	in := newInstallation(t)
	r := in.replica("one")
	r.Publish("ns/a", config(1, "10.0.0.1:80"))
	p := in.pod(r.address, "token-a1", nil)
	p.serves(t, config(1, "10.0.0.1:80"))
	cert, key, err := GenerateAuthority()
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewAuthority(cert, key, cert)
	if err != nil {
		t.Fatal(err)
	}
	r.SetAuthority(a)
	if err := os.WriteFile(in.caFile, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r.serve(t, r.address)
	r.Publish("ns/a", config(2, "10.0.0.2:80"))
	p.serves(t, config(2, "10.0.0.2:80"))
}

// A clock that is hours ahead of the controller's renews no certificate all the
// time.
func TestClockAhead(t *testing.T) {
	in := newInstallation(t)
	a, err := NewAuthority(in.cert, in.key, in.cert)
	if err != nil {
		t.Fatal(err)
	}
	c := forge(t, a, Identity{"ns/a", "a-1"})
	leaf := *c.cert.Leaf
	for _, shift := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		leaf.NotBefore, leaf.NotAfter = c.cert.Leaf.NotBefore.Add(shift), c.cert.Leaf.NotAfter.Add(shift)
		if life := time.Until(renewAt(&leaf)); life < clientLife/2 || life > clientLife {
			t.Errorf("made %v from now, a certificate is renewed after %v", shift, life)
		}
	}
}

// Streams that come and go leave nothing.
func TestComingsAndGoings(t *testing.T) {
	in := newInstallation(t)
	r := in.replica("one")
	r.Publish("ns/a", config(1, "10.0.0.1:80"))
	a, err := NewAuthority(in.cert, in.key, in.cert)
	if err != nil {
		t.Fatal(err)
	}
	e := &enrollment{caFile: in.caFile, serverName: serverName}
	c := forge(t, a, Identity{"ns/a", "a-1"})
	round := func() {
		if err := open(t, e, r.address, c); err != nil {
			t.Fatal(err)
		}
	}
	round()
	before := runtime.NumGoroutine()
	for range 500 {
		round()
	}
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before+20 })
	eventually(t, "nothing is left", func() bool { return len(r.State("ns/a").Pods) == 0 && testutil.ToFloat64(r.metrics.streams) == 0 })
}

// Strangers, and pods that open more connections than they need, keep nobody out
// and nothing open.
func TestAdmission(t *testing.T) {
	in := newInstallation(t)
	r := in.replica("one")
	r.Publish("ns/a", config(1, "10.0.0.1:80"))
	var idle []net.Conn
	defer func() {
		for _, c := range idle {
			_ = c.Close()
		}
	}()
	refused := func() float64 { return testutil.ToFloat64(r.metrics.connections.WithLabelValues("refused")) }
	for range maxOfOnePeer + 5 {
		c, err := net.Dial("tcp", r.address)
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	eventually(t, "refused", func() bool { return refused() == 5 })

	// Others are served all the while.
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	other, err := dialer.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(other, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // a stranger
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	// A stranger may not go on sending.
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	sent := 0
	for err == nil && sent < 1<<26 {
		var n int
		n, err = conn.Write(make([]byte, 32<<10))
		sent += n
	}
	_ = conn.Close()
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stranger has sent %d bytes: %v", sent, err)
	}
	for _, c := range idle {
		_ = c.Close()
	}
	in.pod(r.address, "token-a1", nil).serves(t, config(1, "10.0.0.1:80"))
}

// Counts of connections add up whatever the order in which they end.
func TestAdmissionCounts(t *testing.T) {
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	a := newAdmission(nil, m)
	var open []*admitted
	for range maxOfOnePeer {
		client, server := net.Pipe()
		defer client.Close()
		open = append(open, a.admit(server))
	}
	client, server := net.Pipe()
	defer client.Close()
	if a.admit(server) != nil {
		t.Error("one more than the bound was admitted")
	}
	for i, c := range open {
		if i%2 == 0 {
			c.known(time.Now().Add(time.Hour))
			c.known(time.Now().Add(time.Hour))
		}
	}
	if a.strangers != len(open)/2 || a.open != len(open) {
		t.Errorf("%d strangers of %d", a.strangers, a.open)
	}
	for _, c := range open {
		_ = c.Close()
		_ = c.Close()
		c.known(time.Now())
	}
	if a.open != 0 || a.strangers != 0 || len(a.peers) != 0 {
		t.Errorf("after all have closed: %d open, %d strangers, %v", a.open, a.strangers, a.peers)
	}
}

// A replica that does not see what changes is not followed while another does.
func TestStaleReplica(t *testing.T) {
	in := newInstallation(t)
	one, two := in.replica("one"), in.replica("two")
	one.SetPeers(map[string]string{"two": two.address})
	two.SetPeers(map[string]string{"one": one.address})
	one.Publish("ns/a", config(1, "10.0.0.1:80"))
	two.Publish("ns/a", config(1, "10.0.0.1:80"))
	p := in.pod(one.address, "token-a1", nil)
	p.serves(t, config(1, "10.0.0.1:80"))
	both := func() bool { return one.acked("ns/a", "a-1") && two.acked("ns/a", "a-1") }
	eventually(t, "acknowledged to both", both)

	one.SetStale(true)
	two.Publish("ns/a", config(2, "10.0.0.2:80"))
	p.serves(t, config(2, "10.0.0.2:80"))
	eventually(t, "both are told all the same", func() bool {
		s := one.State("ns/a")
		return len(s.Pods) == 1 && s.Pods[0].Version == two.State("ns/a").Version
	})

	// Where none sees anything, one goes on being followed.
	two.SetStale(true)
	one.Publish("ns/a", config(3, "10.0.0.3:80"))
	two.Publish("ns/a", config(3, "10.0.0.3:80"))
	p.serves(t, config(3, "10.0.0.3:80"))
	one.SetStale(false)
	one.Publish("ns/a", config(4, "10.0.0.4:80"))
	p.serves(t, config(4, "10.0.0.4:80"))
}

// A pod that never stops talking is heard at a bounded rate, and others are served.
func TestFlood(t *testing.T) {
	in := newInstallation(t)
	r := in.replica("one")
	r.Publish("ns/a", config(1, "10.0.0.1:80"))
	p := in.pod(r.address, "token-a1", nil)
	p.serves(t, config(1, "10.0.0.1:80"))
	stream, _ := in.hostile(t, r, Identity{"ns/b", "b-1"})
	began := time.Now()
	flooding := make(chan struct{})
	go func() {
		defer close(flooding)
		for range 100_000 {
			if stream.SendMsg(&upstream{Ack: &acknowledgment{Version: "x"}}) != nil {
				return // with the test
			}
		}
	}()
	acks := func() float64 { return testutil.ToFloat64(r.metrics.acks.WithLabelValues("applied")) }
	eventually(t, "the flood", func() bool { return acks() > saysBurst })
	for i := range 10 {
		cfg := config(uint64(i+2), fmt.Sprintf("10.0.1.%d:80", i))
		r.Publish("ns/a", cfg)
		p.serves(t, cfg)
	}
	if most := saysBurst + 100 + float64(saysRate)*time.Since(began).Seconds(); acks() > most {
		t.Errorf("%v messages were taken within %v", acks(), time.Since(began))
	}
	r.stop()
	<-flooding
}
