package control

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/internal/control/provision"
	"flexinfer.ai/gateway/internal/control/scale"
	"flexinfer.ai/gateway/internal/control/status"
	"flexinfer.ai/gateway/internal/control/trust"
	"flexinfer.ai/gateway/internal/control/watch"
	"flexinfer.ai/gateway/pkg/translate"
)

// panicRetry is when a round that panicked is tried again if nothing changes.
const panicRetry = 10 * time.Second

// Source hands out a cluster's objects, which are read only.
type Source interface {
	Resources(ctx context.Context) translate.Resources
	GatewayPods() []watch.Pod
}

// LoopOptions are the parts of a Loop. Everything that Submits takes over what
// it is given in place of what it was given before, and does not block.
type LoopOptions struct {
	Source    Source
	Publisher Publisher
	// ControllerName makes GatewayClasses ours; empty: the usual one.
	ControllerName string
	// IdleTimeout is that of Models that set none; 0: they never sleep.
	IdleTimeout time.Duration

	// Settings are what every Gateway's objects share.
	Settings func() provision.Settings

	Statuses  interface{ Submit([]status.Update) }
	Provision interface {
		Submit(provision.Wanted)
		Observe([]*gwapiv1.Gateway) map[types.NamespacedName]provision.Outcome
	}
	Events interface{ Submit([]notice) }
	Scale  interface{ SetWorld(scale.World) }
	// Peers, if any, hears of every EndpointSlice, for the replicas among them.
	Peers func([]*discoveryv1.EndpointSlice)

	Metrics *Metrics
	Logger  *slog.Logger
}

// Loop turns changes into translations and hands their results out.
type Loop struct {
	o       LoopOptions
	trigger *trigger
	fleet   *fleet
	heard   chan struct{} // news from gateway pods

	rounds     uint64
	translated atomic.Bool
}

// NewLoop makes a Loop; Run brings it to life.
func NewLoop(o LoopOptions) *Loop {
	return &Loop{o: o, trigger: newTrigger(), fleet: newFleet(o.Publisher, o.Metrics), heard: make(chan struct{}, 1)}
}

// Changed asks for a translation. It never blocks.
func (l *Loop) Changed() { l.trigger.fire() }

// StatusChanged asks for a translation that has time. It never blocks.
func (l *Loop) StatusChanged() { l.trigger.fireLater() }

// Heard says that a gateway pod has come, gone or answered. It never blocks.
func (l *Loop) Heard(string) {
	select {
	case l.heard <- struct{}{}:
	default:
	}
}

// GatewayOf names the Gateway ("namespace/name") whose pods run as a
// ServiceAccount.
func (l *Loop) GatewayOf(a trust.Account) (string, bool) { return l.fleet.gatewayOf(a) }

// Translated reports whether a whole translation has been published.
func (l *Loop) Translated() bool { return l.translated.Load() }

// Run translates until ctx ends. The Source must be synced. ready is called
// after the first translation.
func (l *Loop) Run(ctx context.Context, ready func()) {
	l.trigger.fire()
	go l.listen(ctx)
	for {
		first, ok := l.trigger.wait(ctx)
		if !ok {
			return
		}
		if l.attempt(ctx, first) && l.translated.CompareAndSwap(false, true) {
			ready()
		}
	}
}

// listen looks at what gateway pods say. A translation follows where it would
// say something else than the last one.
func (l *Loop) listen(ctx context.Context) {
	for {
		var timer <-chan time.Time
		again, next := l.fleet.review()
		if again {
			l.trigger.fire()
		}
		if !next.IsZero() {
			timer = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-l.heard:
		case <-timer:
		}
	}
}

// attempt is one round; a panic ends it and nothing else.
func (l *Loop) attempt(ctx context.Context, first time.Time) (done bool) {
	defer func() {
		if p := recover(); p != nil {
			l.o.Metrics.translated("panicked")
			l.o.Logger.Error("BUG: a translation failed; what was published before goes on", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			time.AfterFunc(panicRetry, l.trigger.fire)
		}
	}()
	start := time.Now()
	defer func() { l.trigger.rest(time.Since(start)) }()
	if !first.IsZero() {
		l.o.Metrics.started(start.Sub(first))
	}
	l.round(ctx, start, first)
	l.o.Metrics.translated("done")
	return true
}

func (l *Loop) round(ctx context.Context, start, first time.Time) {
	res := l.o.Source.Resources(ctx)
	gateways := ours(res, l.o.ControllerName)
	outcomes := l.o.Provision.Observe(gateways)
	l.fleet.observe(gateways, l.o.Source.GatewayPods(), outcomes)
	pending, refused := l.fleet.advice()
	result := translate.Translate(res, translate.Options{
		ControllerName: l.o.ControllerName,
		Now:            metav1.NewTime(start.Truncate(time.Second)),
		FieldManager:   status.FieldOwner,
		Addresses:      addresses(outcomes),
		Pending:        pending,
		Refused:        refused,
	})

	l.rounds++
	for i := range result.Configs {
		result.Configs[i].Config.Generation = l.rounds
	}
	l.fleet.publish(result.Configs, refused, result.LeftOut)
	l.fleet.withdraw(result.Configs, result.Held)
	took := time.Since(start)
	l.o.Metrics.finished(took)
	if !first.IsZero() {
		l.o.Metrics.publishedAfter(time.Since(first))
	}

	l.o.Statuses.Submit(status.Diff(res, result))
	l.o.Provision.Submit(provision.Wanted{
		Settings: l.o.Settings(), Gateways: provisions(result.Provisions), Held: result.Held, All: res.Gateways,
	})
	l.o.Scale.SetWorld(world(res.Models, l.fleet.served(), l.fleet.podNames(), l.o.IdleTimeout))
	l.o.Events.Submit(notices(res, result, outcomes))
	if l.o.Peers != nil {
		l.o.Peers(res.EndpointSlices)
	}
	l.measure(res, result)
	l.Heard("") // a pod may have acknowledged meanwhile what was judged before
	l.o.Logger.Debug("translated", "round", l.rounds, "gateways", len(result.Configs), "took", took)
}

func (l *Loop) measure(res translate.Resources, result translate.Result) {
	m := l.o.Metrics
	m.setObjects("Gateway", len(res.Gateways))
	m.setObjects("HTTPRoute", len(res.HTTPRoutes))
	m.setObjects("Model", len(res.Models))
	m.setObjects("Service", len(res.Services))
	m.setObjects("EndpointSlice", len(res.EndpointSlices))
	m.setWarnings(len(result.Warnings))
	refused := map[string]int{}
	for _, left := range result.LeftOut {
		refused[left.Gateway.String()]++
	}
	m.setRefused(refused)
}

// ours are the Gateways whose class names this controller.
func ours(res translate.Resources, controllerName string) []*gwapiv1.Gateway {
	controllerName = cmp.Or(controllerName, translate.DefaultControllerName)
	classes := map[gwapiv1.ObjectName]bool{}
	for _, c := range res.GatewayClasses {
		classes[gwapiv1.ObjectName(c.Name)] = string(c.Spec.ControllerName) == controllerName
	}
	var out []*gwapiv1.Gateway
	for _, g := range res.Gateways {
		if classes[g.Spec.GatewayClassName] {
			out = append(out, g)
		}
	}
	return out
}

func provisions(needed []translate.Provision) []provision.Gateway {
	out := make([]provision.Gateway, len(needed))
	for i, p := range needed {
		out[i] = provision.Gateway{Object: p.Gateway, Parameters: p.Parameters, Ports: p.Ports}
	}
	return out
}

// addresses are those of the Gateways' Services.
func addresses(outcomes map[types.NamespacedName]provision.Outcome) map[types.NamespacedName][]gwapiv1.GatewayStatusAddress {
	out := make(map[types.NamespacedName][]gwapiv1.GatewayStatusAddress, len(outcomes))
	for name, o := range outcomes {
		out[name] = o.Addresses[:min(len(o.Addresses), maxAddresses)]
	}
	return out
}

// maxAddresses is how many a Gateway's status may hold.
const maxAddresses = 16
