package fastproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"flexinfer.ai/gateway/pkg/routing"
)

// Server is a data plane: it serves the Snapshot of the last Config applied.
// All methods are safe for concurrent use.
type Server struct {
	options  Options
	routing  *routing.Options
	registry *routing.Registry
	live     atomic.Pointer[routing.Snapshot]
	config   atomic.Pointer[routing.Config] // what live was compiled from
	applying sync.Mutex

	front   *front
	admin   *admin
	metrics *metrics
	log     *decisionLog
	mirrors *mirrors

	bodies   budget
	decoding chan struct{} // holds one for each body that is being decoded
	requests atomic.Int64  // exchanges begun, ever
	retries  retryBudget
	draining atomic.Bool
	// dismissing: a drain is near its end, nobody waits for a replica any more.
	dismissing atomic.Bool
	drained    bool // guarded by applying
	departed   departed
}

// New returns a Server that listens on its admin port only, until Apply.
// The error names the admin address that cannot be bound.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	s := &Server{options: o, routing: &o.Settings.Options}
	s.bodies.limit = o.Limits.BufferedBytes
	s.decoding = make(chan struct{}, runtime.GOMAXPROCS(0)) // decoding is all computing
	s.retries.requests = &s.requests
	s.metrics = newMetrics(s)
	s.log = newDecisionLog(o.Logger)
	s.mirrors = newMirrors(s)
	upstream := &upstreamOptions{
		ConnectTimeout: o.Timeouts.Connect, IdleTimeout: o.Timeouts.PoolIdle,
		MaxOpen: o.Limits.EndpointConnections, TunnelIdleTimeout: o.Timeouts.Tunnel,
	}
	fallback := *upstream
	fallback.IdleTimeout, fallback.MaxAge = serviceIdle, serviceAge
	s.registry = routing.NewRegistry(routing.Hooks{
		Target: func(t *routing.Target) any {
			if t.ServiceFallback {
				return newPool(t.Address, &fallback)
			}
			return newPool(t.Address, upstream)
		},
		TargetGone: func(t *routing.Target) { poolOf(t).close() },
		Backend: func(b *routing.BackendState) any {
			a := newBackendAttachment(s.metrics, b, o.Settings.MaxQueueSize)
			a.queue.filled = o.DemandChanged
			return a
		},
		BackendGone: func(b *routing.BackendState) {
			s.departed.add(b)
			s.metrics.backendGone(b)
		},
	})
	s.front = newFront(s)
	if o.AdminAddress != "" {
		a, err := newAdmin(s, o.AdminAddress)
		if err != nil {
			return nil, fmt.Errorf("cannot listen on the admin address %q: %w; choose a free one", o.AdminAddress, err)
		}
		s.admin = a
	}
	return s, nil
}

// Connections to a Service itself are dropped early, so that it can spread them.
const (
	serviceIdle = 500 * time.Millisecond
	serviceAge  = time.Second
)

// poolOf is the connection pool of a target.
func poolOf(t *routing.Target) *pool { return t.Attached.(*pool) }

// Apply compiles cfg and serves it from then on: listeners are opened, kept and
// closed as it says, connections and counters of what stays are kept. On a
// *routing.CompileError the old Snapshot keeps serving. Any other error names
// the ports that could not be bound; everything else of cfg serves.
// A cfg equal to the one served changes nothing but its Generation. While the
// server drains no port is opened or closed any more, everything else is as
// always: what still runs or waits needs endpoints too.
func (s *Server) Apply(cfg *routing.Config) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	if s.drained {
		return errors.New("fastproxy: the server has drained and takes no configuration")
	}
	last := s.live.Load()
	next, err := routing.Compile(cfg, s.routing, last, s.registry)
	if err != nil {
		s.metrics.applyFailed()
		if last != nil {
			s.registry.Sweep(last)
		}
		return err
	}
	s.live.Store(next)
	s.config.Store(cfg)
	if !s.draining.Load() {
		err = s.front.apply(next.Sockets())
	}
	s.registry.Sweep(next)
	s.metrics.applied(next)
	s.wakeCold(next)
	return err
}

// snapshot is what new requests are served by; nil before the first Apply.
func (s *Server) snapshot() *routing.Snapshot { return s.live.Load() }

// Ready says whether requests can be served: a Snapshot is live, no drain has begun.
func (s *Server) Ready() bool { return s.live.Load() != nil && !s.draining.Load() }

// Addr is the address that the listener port is bound to; nil: it is not.
func (s *Server) Addr(port uint16) net.Addr { return s.front.addr(port) }

// AdminAddr is the admin port's address; nil: there is none.
func (s *Server) AdminAddr() net.Addr {
	if s.admin == nil {
		return nil
	}
	return s.admin.addr()
}

// Drain ends the Server without losing a request: not ready at once, a delay
// in which load balancers notice and answers end their connections already, so
// that those left idle are ones that nobody uses much; then no new connections,
// idle ones closed, and a wait for what runs until ctx ends;
// what still runs then is cut. The error says how much that was. Requests that
// wait for a first replica go on waiting; shortly before ctx's deadline they are
// answered with a 503 that asks them to come again.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	s.front.draining.Store(true)
	select {
	case <-time.After(s.options.Settings.ShutdownDrainDelay):
	case <-ctx.Done():
	}
	s.applying.Lock()   // no Apply is left that may open a port
	s.applying.Unlock() //nolint:staticcheck // nothing to guard
	defer s.dismissBefore(ctx)()
	err := s.front.drain(ctx)
	s.mirrors.close()
	s.applying.Lock()
	defer s.applying.Unlock()
	s.drained = true
	s.registry.Sweep(emptySnapshot(s))
	if s.admin != nil {
		err = errors.Join(err, s.admin.close())
	}
	return err
}

// emptySnapshot serves nothing: sweeping by it closes every pool.
func emptySnapshot(s *Server) *routing.Snapshot {
	none, err := routing.Compile(&routing.Config{}, s.routing, nil, s.registry)
	if err != nil {
		panic("BUG: the empty Config does not compile: " + err.Error())
	}
	return none
}

// acquireExchange returns an exchange for the front to fill.
func (s *Server) acquireExchange() *exchange {
	s.requests.Add(1)
	x, _ := exchanges.Get().(*exchange)
	if x == nil {
		x = &exchange{}
	}
	x.server = s
	return x
}

var exchanges sync.Pool
