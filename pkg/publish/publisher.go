package publish

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"flexinfer.ai/gateway/pkg/routing"
)

// ErrUnauthenticated is what an Authenticate's error is (errors.Is) where asking
// again with the same token is of no use.
var ErrUnauthenticated = errors.New("unauthenticated")

// Options is what a Publisher needs. Changed, Demand and Registerer may be nil.
type Options struct {
	Logger *slog.Logger
	// Instance names this replica among those of the controller.
	Instance string
	// ServerNames are the DNS names by which gateways know the controller.
	ServerNames []string
	// Authenticate says whose pod presents a token from peer, an IP address. Its
	// error's text is sent to the pod and must not hold the token.
	Authenticate func(ctx context.Context, token, peer string) (Identity, error)
	// Changed hears that State of a Gateway may say something else. It must not
	// block.
	Changed func(gateway string)
	// Demand hears what a pod reports, in order for one pod. It must not block.
	Demand     func(Report)
	Registerer prometheus.Registerer
}

// Publisher gives each Gateway's pods its Config and keeps what they say of it.
type Publisher struct {
	o       Options
	metrics *metrics
	serving serving

	publishing sync.Mutex // orders Publish calls

	mu       sync.Mutex
	gateways map[string]*gatewayState
	peers    map[string]string // the other replicas' addresses by instance
	stale    bool
}

// gatewayState is what is published for one Gateway, and to whom.
type gatewayState struct {
	revision      *revision                // nil: nothing is
	subscriptions map[string]*subscription // by pod; the newest of each
}

// New makes a Publisher. Nothing is served before SetAuthority and Serve.
func New(o Options) (*Publisher, error) {
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	if o.Demand == nil {
		o.Demand = func(Report) {}
	}
	p := &Publisher{o: o, gateways: map[string]*gatewayState{}}
	p.serving.names = o.ServerNames
	var err error
	p.metrics, err = newMetrics(o.Registerer)
	return p, err
}

// SetAuthority says which CA signs and is trusted from now on. Open streams
// stay.
func (p *Publisher) SetAuthority(a *Authority) { p.serving.set(a) }

// SetPeers says at which addresses ("host:port") the other replicas of the
// controller serve, by their Instance. Gateways hold a stream to each.
func (p *Publisher) SetPeers(peers map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if maps.Equal(p.peers, peers) {
		return
	}
	p.peers = maps.Clone(peers)
	for _, g := range p.gateways {
		g.wake()
	}
}

// SetStale says whether what is published may be out of date because this replica
// does not see what changes. Gateways then follow one that does.
func (p *Publisher) SetStale(stale bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stale == stale {
		return
	}
	p.stale = stale
	for _, g := range p.gateways {
		g.wake()
	}
}

// Publish makes cfg what the Gateway's pods get. It never waits for them. An
// equal Config changes nothing, whatever its Generation. cfg must not change
// any more.
func (p *Publisher) Publish(gateway string, cfg *routing.Config) {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	former := p.revision(gateway)
	next, err := newRevision(cfg, former)
	if err != nil {
		p.o.Logger.Error("configuration cannot be published; the former one goes on", "gateway", gateway, "reason", err.Error())
		return
	}
	if former != nil && former.Version == next.Version {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.gateway(gateway)
	g.revision = next
	g.wake()
}

// Remove ends what is published for a Gateway: its pods keep what they have, and
// new ones get nothing.
func (p *Publisher) Remove(gateway string) {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if g := p.gateways[gateway]; g != nil {
		g.revision = nil
		p.forget(gateway, g)
	}
}

// State tells what was published for a Gateway and what its pods made of it.
func (p *Publisher) State(gateway string) State {
	p.mu.Lock()
	defer p.mu.Unlock()
	var s State
	g := p.gateways[gateway]
	if g == nil {
		return s
	}
	if g.revision != nil {
		s.Generation, s.Version = g.revision.Generation, g.revision.Version
	}
	for _, sub := range g.subscriptions {
		s.Pods = append(s.Pods, sub.state())
	}
	slices.SortFunc(s.Pods, func(a, b PodState) int { return strings.Compare(a.Pod, b.Pod) })
	return s
}

// gateway returns the state of a Gateway, made if need be; p.mu is held.
func (p *Publisher) gateway(name string) *gatewayState {
	g := p.gateways[name]
	if g == nil {
		g = &gatewayState{subscriptions: map[string]*subscription{}}
		p.gateways[name] = g
	}
	return g
}

// forget drops a Gateway of which nothing is left; p.mu is held.
func (p *Publisher) forget(name string, g *gatewayState) {
	if g.revision == nil && len(g.subscriptions) == 0 {
		delete(p.gateways, name)
	}
}

func (p *Publisher) revision(gateway string) *revision {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g := p.gateways[gateway]; g != nil {
		return g.revision
	}
	return nil
}

// wake lets every stream look for news.
func (g *gatewayState) wake() {
	for _, s := range g.subscriptions {
		s.wake()
	}
}

// Serve serves gateways on l until ctx ends; then open streams are cut: gateways
// keep what they have and follow another replica.
func (p *Publisher) Serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(
		grpc.Creds(newHandshakes(p.serving.tlsConfig())),
		grpc.ForceServerCodecV2(codec{}),
		grpc.StatsHandler(p.metrics),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxConcurrentStreams(2),
		grpc.MaxHeaderListSize(64<<10),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: keepaliveTime, Timeout: keepaliveTimeout, MaxConnectionIdle: time.Minute,
		}),
	)
	server.RegisterService(&serviceDesc, p)
	defer context.AfterFunc(ctx, server.Stop)()
	err := server.Serve(newAdmission(l, p.metrics))
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// How soon a peer that vanished without a word is noticed.
const (
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 5 * time.Second
)

// serving holds what TLS is served with.
type serving struct {
	names []string

	mu        sync.Mutex
	authority *Authority
	config    *tls.Config
	until     time.Time // from when on a new certificate is due
}

func (s *serving) set(a *Authority) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.authority, s.config = a, nil
}

func (s *serving) current() *Authority {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.authority
}

var errNoAuthority = errors.New("the certificate authority is not known yet")

// tlsConfig asks for a client certificate without needing one: Enroll comes
// first.
func (s *serving) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.clientConfig() },
	}
}

func (s *serving) clientConfig() (*tls.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.authority == nil {
		return nil, errNoAuthority
	}
	if s.config != nil && time.Now().Before(s.until) {
		return s.config, nil
	}
	cert, err := s.authority.servingCertificate(s.names)
	if err != nil {
		return nil, err
	}
	s.until = time.Now().Add(servingLife / 2)
	s.config = &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"h2"},
		Certificates:           []tls.Certificate{*cert},
		ClientAuth:             tls.VerifyClientCertIfGiven,
		ClientCAs:              s.authority.trust,
		SessionTicketsDisabled: true,
	}
	return s.config, nil
}
