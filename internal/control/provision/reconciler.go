package provision

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// FieldManager is the field manager of what is applied.
const FieldManager = ManagedBy

// Options are the parts of a Reconciler; all but Metrics are required.
type Options struct {
	// Client writes, and reads without a cache.
	Client client.Client
	// Cache is made with CacheOptions and run by the caller.
	Cache cache.Cache
	// Changed is called when Outcomes may have changed. It must not block.
	Changed func()
	Metrics *Metrics
	Logger  *slog.Logger
}

// Wanted is what there should be.
type Wanted struct {
	Settings Settings
	// Gateways are the accepted ones.
	Gateways []Gateway
	// Held are those of our classes that are not accepted: what runs for them is
	// left as it is.
	Held []types.NamespacedName
	// All are the Gateways of the cluster, of any class. A Gateway that is neither
	// accepted nor held loses its objects only if it names another class than the
	// one they were made for: a GatewayClass that is gone takes nothing with it.
	All []*gwapiv1.Gateway
}

// Outcome is what became of one Gateway.
type Outcome struct {
	// Err says which object could not be made or changed as it should be, and what
	// to do about it. It is tried again, at growing intervals.
	Err error
	// Addresses are those of the Service; none as long as there are none.
	Addresses []gwapiv1.GatewayStatusAddress
	// Replicas is how many gateway pods there should be, Ready how many are ready.
	Replicas, Ready int32
	// Problem is what Kubernetes says against the pods that are missing, such as an
	// exceeded quota; empty where it says nothing or none are missing.
	Problem string
}

// Reconciler keeps the objects of Gateways as they should be.
type Reconciler struct {
	opts  Options
	owned owned
	now   func() time.Time
	wake  chan struct{}

	mu       sync.Mutex
	wanted   *Wanted // nil before the first Submit
	gateways map[types.NamespacedName]*gatewayState
}

// New makes a Reconciler; Start brings its caches to life, Run makes it work.
func New(o Options) *Reconciler {
	return &Reconciler{opts: o, now: time.Now, wake: make(chan struct{}, 1), gateways: map[types.NamespacedName]*gatewayState{}}
}

// Start begins to watch what is provisioned and returns when that is known, or
// with ctx's error. Every replica of the controller does so, for Outcomes.
func (r *Reconciler) Start(ctx context.Context) error {
	return r.owned.start(ctx, r.opts.Cache, ownedHandler{wake: r.signal, changed: r.opts.Changed})
}

// Submit says what there should be from now on. It never blocks and may be called
// by any goroutine; what w holds must not be changed afterwards.
func (r *Reconciler) Submit(w Wanted) {
	r.mu.Lock()
	r.wanted = &w
	r.mu.Unlock()
	r.signal()
}

func (r *Reconciler) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run is the leader's work: it makes what Submit asked for and keeps it so, until
// ctx ends. Start must have returned.
func (r *Reconciler) Run(ctx context.Context) error {
	for {
		next := r.pass(ctx)
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = time.After(next.Sub(r.now()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		case <-timer:
		}
	}
}

// Outcomes tells what became of the Gateways submitted last.
func (r *Reconciler) Outcomes() map[types.NamespacedName]Outcome {
	r.mu.Lock()
	w := r.wanted
	r.mu.Unlock()
	if w == nil {
		return nil
	}
	gateways := make([]*gwapiv1.Gateway, len(w.Gateways))
	for i, g := range w.Gateways {
		gateways[i] = g.Object
	}
	return r.Observe(gateways)
}

// Observe tells what became of Gateways, whether or not they were submitted. Err
// is known where Run runs, the rest wherever Start has returned. It asks nobody
// and never blocks for long.
func (r *Reconciler) Observe(gateways []*gwapiv1.Gateway) map[types.NamespacedName]Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[types.NamespacedName]Outcome, len(gateways))
	for _, g := range gateways {
		key := types.NamespacedName{Namespace: g.Namespace, Name: g.Name}
		name := Name(key, string(g.Spec.GatewayClassName))
		o := r.owned.observe(types.NamespacedName{Namespace: g.Namespace, Name: name}, g.UID)
		if state := r.gateways[key]; state != nil && state.uid == g.UID {
			o.Err = state.err
		}
		out[key] = o
	}
	return out
}
