package provision

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const (
	// concurrency is how many Gateways are worked on at a time.
	concurrency    = 8
	requestTimeout = 15 * time.Second
	firstBackoff   = time.Second
	longestBackoff = 30 * time.Second
)

// gatewayState is what is known of one Gateway's objects. One goroutine at a time
// works on it; uid and err are guarded by Reconciler.mu.
type gatewayState struct {
	uid types.UID
	err error

	made     made
	desired  []desired
	written  map[objectKey]written
	failures int
	notYet   time.Time // nothing is tried before
}

// made is what desired was made from.
type made struct {
	generation int64
	from       Gateway
	settings   Settings
}

// pass works on everything that is not as it should be, and returns when the
// next attempt is due; zero: none is.
func (r *Reconciler) pass(ctx context.Context) (next time.Time) {
	r.mu.Lock()
	w := r.wanted
	r.mu.Unlock()
	if w == nil {
		return time.Time{}
	}
	states := r.settle(w)
	var working sync.WaitGroup
	slots := make(chan struct{}, concurrency)
	for i, state := range states {
		state.plan(w.Gateways[i], w.Settings)
		if r.now().Before(state.notYet) || !r.differs(state) {
			continue
		}
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			r.attempt(ctx, state)
		})
	}
	working.Wait()
	next = r.prune(ctx, w, states)
	for _, state := range states {
		if !state.notYet.IsZero() && (next.IsZero() || state.notYet.Before(next)) {
			next = state.notYet
		}
	}
	return next
}

// settle returns the state of each wanted Gateway and forgets the others.
func (r *Reconciler) settle(w *Wanted) []*gatewayState {
	r.mu.Lock()
	defer r.mu.Unlock()
	states := make([]*gatewayState, len(w.Gateways))
	kept := make(map[types.NamespacedName]*gatewayState, len(w.Gateways))
	for i, g := range w.Gateways {
		state := r.gateways[g.key()]
		if state == nil || state.uid != g.Object.UID {
			state = &gatewayState{uid: g.Object.UID, written: map[objectKey]written{}}
		}
		states[i], kept[g.key()] = state, state
	}
	r.gateways = kept
	return states
}

// plan makes what is desired, where anything that it follows from has changed;
// then the next attempt waits no longer.
func (s *gatewayState) plan(g Gateway, settings Settings) {
	m := made{generation: g.Object.Generation, from: g, settings: settings}
	if s.desired != nil && s.made.equal(m) {
		return
	}
	s.made, s.failures, s.notYet = m, 0, time.Time{}
	s.desired = s.desired[:0]
	for _, o := range Desired(g, settings) {
		d := newDesired(o)
		if a := g.Parameters.Autoscaling; a != nil && d.key.kind.Kind == "Deployment" {
			d.initial, _, _ = scaling(a)
		}
		s.desired = append(s.desired, d)
	}
}

func (m made) equal(n made) bool {
	a, b := m.from, n.from
	return m.generation == n.generation && a.key() == b.key() && slices.Equal(a.Ports, b.Ports) &&
		equality.Semantic.DeepEqual(a.Parameters, b.Parameters) && equality.Semantic.DeepEqual(m.settings, n.settings)
}

// differs reports whether any object is otherwise than it was written.
func (r *Reconciler) differs(s *gatewayState) bool {
	return slices.ContainsFunc(s.desired, func(d desired) bool {
		return !s.written[d.key].holds(d, r.owned.get(d.key.kind, d.key.name))
	})
}

// attempt applies what differs, as far as the first error. Of a Gateway that has
// gone, or is going, it makes nothing anew: the garbage collector is removing what
// ran for it, and that is heard of before the next Submit.
func (r *Reconciler) attempt(ctx context.Context, s *gatewayState) {
	var err error
	stays := false
	for _, d := range s.desired {
		held := r.owned.get(d.key.kind, d.key.name)
		if s.written[d.key].holds(d, held) {
			continue
		}
		if held == nil && !stays {
			if stays, err = r.stays(ctx, s); err == nil && !stays {
				s.failures, s.notYet = 0, time.Time{}
				return
			}
		}
		var w written
		if err == nil {
			w, err = r.apply(ctx, s.uid, d)
		}
		if err != nil {
			r.opts.Metrics.count(d.key.kind.Kind, "failed")
			break
		}
		r.opts.Metrics.count(d.key.kind.Kind, "applied")
		s.written[d.key] = w
	}
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		s.failures, s.notYet = 0, time.Time{}
	} else {
		s.failures++
		s.notYet = r.now().Add(min(longestBackoff, firstBackoff<<min(s.failures-1, 10)))
	}
	r.tell(s, err)
}

// stays reports whether a Gateway exists and is not being deleted. It asks the API
// server, for no cache knows at once; by a list, which is what is allowed anyway.
func (r *Reconciler) stays(ctx context.Context, s *gatewayState) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	key := s.made.from.key()
	gateways := &metav1.PartialObjectMetadataList{}
	gateways.SetGroupVersionKind(schema.GroupVersion(gwapiv1.GroupVersion).WithKind("GatewayList"))
	err := r.opts.Client.List(ctx, gateways, client.InNamespace(key.Namespace), client.MatchingFields{metav1.ObjectNameField: key.Name})
	if err != nil {
		return false, fmt.Errorf("cannot read Gateway %s: %w", key, err)
	}
	return slices.ContainsFunc(gateways.Items, func(g metav1.PartialObjectMetadata) bool {
		return g.Name == key.Name && g.UID == s.uid && g.DeletionTimestamp == nil
	}), nil
}

// tell records what an attempt came to.
func (r *Reconciler) tell(s *gatewayState, err error) {
	if isPassing(err) && s.failures < 3 || NamespaceGone(err) {
		return // the next attempt reads what others wrote meanwhile; or the Gateway is about to go
	}
	r.mu.Lock()
	changed := (err == nil) != (s.err == nil) || err != nil && err.Error() != s.err.Error()
	s.err = err
	r.mu.Unlock()
	if !changed {
		return
	}
	g := s.made.from.key()
	if err != nil {
		r.opts.Logger.Error("cannot provision a Gateway; it is tried again", "namespace", g.Namespace, "name", g.Name, "error", err)
	} else {
		r.opts.Logger.Info("a Gateway that could not be provisioned is", "namespace", g.Namespace, "name", g.Name)
	}
	r.opts.Changed()
}

// prune deletes what is not wanted any more. It returns when to try again.
func (r *Reconciler) prune(ctx context.Context, w *Wanted, states []*gatewayState) (next time.Time) {
	surplus := w.surplus(&r.owned, states)
	for _, o := range surplus {
		kind, name := o.GetObjectKind().GroupVersionKind().Kind, o.GetNamespace()+"/"+o.GetName()
		bounded, cancel := context.WithTimeout(ctx, requestTimeout)
		err := r.opts.Client.Delete(bounded, o, client.Preconditions{UID: new(o.GetUID())}, client.PropagationPolicy("Background"))
		cancel()
		switch {
		case err == nil:
			r.opts.Metrics.count(kind, "deleted")
			r.opts.Logger.Info("deleted what a Gateway no longer needs", "kind", kind, "name", name)
		case isGone(err) || ctx.Err() != nil:
		default:
			r.opts.Metrics.count(kind, "failed")
			r.opts.Logger.Error("cannot delete what a Gateway no longer needs; it is tried again", "kind", kind, "name", name, "error", err)
			next = r.now().Add(longestBackoff)
		}
	}
	return next
}
