package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/internal/control/provision"
	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/translate"
)

// Reasons of events.
const (
	reasonInvalid            = "Invalid"
	reasonRefused            = "ResourceRefused"
	reasonProvisioningFailed = "ProvisioningFailed"
)

// maxNote is how long an event's text may be, in bytes.
const maxNote = 1024

// notice is one thing that is wrong with an object, for an event.
type notice struct {
	about        client.Object
	kind, reason string
	text         string
}

// subject is what a notice is about: there is one of each at a time.
type subject struct {
	uid    types.UID
	reason string
}

func (n notice) subject() subject { return subject{n.about.GetUID(), n.reason} }

// notices are what users must know of: the mistakes in their objects, what gateway
// pods refused, and what cannot be provisioned. One of a reason for each object.
func notices(res translate.Resources, result translate.Result, outcomes map[types.NamespacedName]provision.Outcome) []notice {
	c := newCollector(res, result)
	c.tell(result.Warnings, res)
	for _, left := range result.LeftOut {
		c.add("Gateway", left.Gateway, reasonRefused, fmt.Sprintf("%s is left out until it changes, because the gateway pods refused it: %s", left.Key, left.Reason))
	}
	for _, p := range result.Provisions {
		name := types.NamespacedName{Namespace: p.Gateway.Namespace, Name: p.Gateway.Name}
		if o := outcomes[name]; o.Err != nil {
			c.add("Gateway", name, reasonProvisioningFailed, o.Err.Error())
		}
	}
	return c.list
}

// objectName names an object that is ours to report on.
type objectName struct {
	kind string
	types.NamespacedName
}

// collector gathers notices, one for each subject.
type collector struct {
	objects map[objectName]client.Object
	list    []notice
	index   map[subject]int
}

func newCollector(res translate.Resources, result translate.Result) *collector {
	c := &collector{objects: map[objectName]client.Object{}, index: map[subject]int{}}
	about := concerned(result)
	mine(c, about, "GatewayClass", res.GatewayClasses, result.GatewayClasses)
	mine(c, about, "Gateway", res.Gateways, result.Gateways)
	mine(c, about, "HTTPRoute", res.HTTPRoutes, result.HTTPRoutes)
	mine(c, about, v1alpha2.KindModel, res.Models, result.Models)
	return c
}

// concerned names the objects that there may be something to tell of: few of many.
func concerned(result translate.Result) map[objectName]bool {
	about := map[objectName]bool{}
	for _, w := range result.Warnings {
		about[objectName{w.Kind, types.NamespacedName{Namespace: w.Namespace, Name: w.Name}}] = true
	}
	for _, left := range result.LeftOut {
		about[objectName{"Gateway", left.Gateway}] = true
	}
	for _, p := range result.Provisions {
		about[objectName{"Gateway", client.ObjectKeyFromObject(p.Gateway)}] = true
	}
	return about
}

// tell adds what is wrong with objects of ours, and with Gateways and routes that
// are nobody's.
func (c *collector) tell(warnings []translate.Warning, res translate.Resources) {
	nobodys := map[objectName]client.Object{}
	if slices.ContainsFunc(warnings, func(w translate.Warning) bool { return w.Ownerless }) {
		for _, g := range res.Gateways {
			nobodys[objectName{"Gateway", client.ObjectKeyFromObject(g)}] = g
		}
		for _, r := range res.HTTPRoutes {
			nobodys[objectName{"HTTPRoute", client.ObjectKeyFromObject(r)}] = r
		}
	}
	for _, w := range warnings {
		text := w.Message
		if w.Field != "" {
			text = w.Field + ": " + text
		}
		name := types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
		if o := nobodys[objectName{w.Kind, name}]; o != nil && w.Ownerless {
			c.note(o, w.Kind, reasonInvalid, text)
			continue
		}
		c.add(w.Kind, name, reasonInvalid, text)
	}
}

// mine adds those of the objects concerned for which translation made a status.
func mine[T client.Object, S any](c *collector, about map[objectName]bool, kind string, objects []T, statuses []translate.ObjectStatus[S]) {
	ours := map[types.NamespacedName]bool{}
	for i := range statuses {
		if about[objectName{kind, statuses[i].Name}] {
			ours[statuses[i].Name] = true
		}
	}
	if len(ours) == 0 {
		return
	}
	for _, o := range objects {
		if name := client.ObjectKeyFromObject(o); ours[name] {
			c.objects[objectName{kind, name}] = o
		}
	}
}

func (c *collector) add(kind string, name types.NamespacedName, reason, text string) {
	if about := c.objects[objectName{kind, name}]; about != nil {
		c.note(about, kind, reason, text)
	}
}

func (c *collector) note(about client.Object, kind, reason, text string) {
	s := subject{about.GetUID(), reason}
	i, known := c.index[s]
	if !known {
		c.index[s] = len(c.list)
		c.list = append(c.list, notice{about, kind, reason, text})
		return
	}
	if len(c.list[i].text) <= maxNote { // what is longer is cut
		c.list[i].text += "; " + text
	}
}

// newsRate and newsBurst bound how many events are told, however much breaks at
// once.
const (
	newsRate  = rate.Limit(10) // a second
	newsBurst = 50
)

// patienceWithUsers is how long something is wrong before an event tells: objects
// that belong together come one after the other.
const patienceWithUsers = 3 * time.Second

// announcer tells notices as events, each once until its text changes.
type announcer struct {
	recorder record.EventRecorder
	limiter  *rate.Limiter

	mu      sync.Mutex
	current []notice
	wake    chan struct{}

	known map[subject]*news // by the goroutine of run alone
}

// news is what is known of a subject.
type news struct {
	text  string
	since time.Time
	told  bool
}

func newAnnouncer(r record.EventRecorder) *announcer {
	return &announcer{recorder: r, limiter: rate.NewLimiter(newsRate, newsBurst), wake: make(chan struct{}, 1)}
}

// Submit replaces what there is to tell. It never blocks.
func (a *announcer) Submit(current []notice) {
	a.mu.Lock()
	a.current = current
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run tells events until ctx ends: the leader's work. A new leader tells what
// there is anew, for it does not know what was told.
func (a *announcer) run(ctx context.Context) {
	a.known = map[subject]*news{}
	for {
		var timer <-chan time.Time
		if next := a.pass(ctx); !next.IsZero() {
			timer = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-timer:
		}
	}
}

// pass tells what is due, and returns when something else will be; zero: nothing.
// A Submit in between ends it: what was wrong may have been mended.
func (a *announcer) pass(ctx context.Context) (next time.Time) {
	current := a.settle()
	for _, n := range current {
		k := a.known[n.subject()]
		due := k.since.Add(patienceWithUsers)
		if k.told {
			continue
		}
		if time.Until(due) > 0 {
			if next.IsZero() || due.Before(next) {
				next = due
			}
			continue
		}
		if a.limiter.Wait(ctx) != nil || len(a.wake) > 0 {
			return time.Time{}
		}
		k.told = true
		a.recorder.Event(reference(n), corev1.EventTypeWarning, n.reason, cut(n.text, maxNote))
	}
	return next
}

// settle takes over what there is to tell now.
func (a *announcer) settle() []notice {
	a.mu.Lock()
	current := a.current
	a.mu.Unlock()
	former := a.known
	a.known = make(map[subject]*news, len(current))
	for _, n := range current {
		k := former[n.subject()]
		if k == nil || k.text != n.text {
			k = &news{text: n.text, since: time.Now()}
		}
		a.known[n.subject()] = k
	}
	return current
}

// reference names the object; the cache's own may lack its kind.
func reference(n notice) runtime.Object {
	ref := &corev1.ObjectReference{
		Kind: n.kind, Namespace: n.about.GetNamespace(), Name: n.about.GetName(), UID: n.about.GetUID(),
		ResourceVersion: n.about.GetResourceVersion(),
	}
	switch n.about.(type) {
	case *v1alpha2.Model:
		ref.APIVersion = v1alpha2.GroupVersion.String()
	default:
		ref.APIVersion = gwapiv1.GroupVersion.String()
	}
	return ref
}

// cut shortens a text to a number of bytes, at the edge of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}
