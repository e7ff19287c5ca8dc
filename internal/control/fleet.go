package control

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/internal/control/provision"
	"flexinfer.ai/gateway/internal/control/trust"
	"flexinfer.ai/gateway/internal/control/watch"
	"flexinfer.ai/gateway/pkg/publish"
	"flexinfer.ai/gateway/pkg/routing"
	"flexinfer.ai/gateway/pkg/translate"
)

// patience is how long a gateway pod may be behind, or out of touch, before a
// Gateway that was programmed no longer is.
const patience = 15 * time.Second

// Publisher sends Configs to gateway pods and knows what they made of them.
// Gateways are named "namespace/name". Safe for concurrent use.
type Publisher interface {
	// Publish replaces what the Gateway's pods are to serve. It never blocks;
	// nothing is sent where the content is the same. The Config must not change
	// any more.
	Publish(gateway string, cfg *routing.Config)
	// Remove forgets a Gateway.
	Remove(gateway string)
	State(gateway string) publish.State
}

// fleet is what is known of the gateway pods of every Gateway. Safe for
// concurrent use.
type fleet struct {
	publisher Publisher
	now       func() time.Time
	metrics   *Metrics

	mu       sync.Mutex
	gateways map[types.NamespacedName]*gatewayState
	accounts map[trust.Account]types.NamespacedName
}

// gatewayState is one Gateway and its pods.
type gatewayState struct {
	name       types.NamespacedName
	uid        types.UID
	workload   string // the name of what is provisioned
	generation int64  // of the Gateway object
	pods       []watch.Pod

	published *published // nil: nothing yet
	// reached is the newest generation of the Gateway that was programmed.
	reached int64
	late    time.Time // since when a pod has been behind; zero: none is
	outcome provision.Outcome

	refused map[string]refusal // by Key
	told    string             // what the last translation was told
}

// refusal is what a pod refused. It stands as long as that pod: one that replaces
// it may be of a newer version, and says so if not.
type refusal struct {
	translate.Refusal
	pod string
}

// published is what a Gateway's pods were sent last.
type published struct {
	generation int64 // of the Gateway object
	version    string
	at         time.Time
	acked      bool            // by all connected pods, or there was none
	complete   *routing.Config // with what was left out
}

func newFleet(p Publisher, m *Metrics) *fleet {
	return &fleet{
		publisher: p, now: time.Now, metrics: m,
		gateways: map[types.NamespacedName]*gatewayState{}, accounts: map[trust.Account]types.NamespacedName{},
	}
}

// observe takes over the Gateways and gateway pods that there are now, and what
// became of what the pods run on.
func (f *fleet) observe(gateways []*gwapiv1.Gateway, pods []watch.Pod, outcomes map[types.NamespacedName]provision.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	there := make(map[types.NamespacedName]bool, len(gateways))
	f.accounts = make(map[trust.Account]types.NamespacedName, len(gateways))
	for _, obj := range gateways {
		name := types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name}
		there[name] = true
		g := f.gateways[name]
		if g != nil && g.uid != obj.UID {
			f.publisher.Remove(name.String())
			g = nil
		}
		if g == nil {
			g = &gatewayState{name: name, uid: obj.UID, refused: map[string]refusal{}}
			// What an earlier leader said holds until pods had time to connect.
			if c := meta.FindStatusCondition(obj.Status.Conditions, string(gwapiv1.GatewayConditionProgrammed)); c != nil && c.Status == metav1.ConditionTrue {
				g.reached = c.ObservedGeneration
			}
			f.gateways[name] = g
		}
		g.generation, g.pods, g.outcome = obj.Generation, nil, outcomes[name]
		g.workload = provision.Name(name, string(obj.Spec.GatewayClassName))
		f.accounts[trust.Account{Namespace: name.Namespace, Name: g.workload}] = name
	}
	for name := range f.gateways {
		if !there[name] {
			delete(f.gateways, name)
			f.publisher.Remove(name.String())
		}
	}
	for _, p := range pods {
		if name, ok := f.accounts[trust.Account{Namespace: p.Namespace, Name: p.ServiceAccount}]; ok {
			g := f.gateways[name]
			g.pods = append(g.pods, p)
		}
	}
	for _, g := range f.gateways {
		maps.DeleteFunc(g.refused, func(_ string, r refusal) bool {
			return !slices.ContainsFunc(g.pods, func(p watch.Pod) bool { return p.Name == r.pod })
		})
	}
}

// gatewayOf names the Gateway whose pods run as a ServiceAccount.
func (f *fleet) gatewayOf(a trust.Account) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name, ok := f.accounts[a]
	return name.String(), ok
}

// advice is what a translation has to know of the gateway pods.
func (f *fleet) advice() (pending map[types.NamespacedName]string, refused map[types.NamespacedName][]translate.Refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pending = map[types.NamespacedName]string{}
	refused = map[types.NamespacedName][]translate.Refusal{}
	for name, g := range f.gateways {
		g.told, _ = f.judge(g)
		if g.told != "" {
			pending[name] = g.told
		}
		for _, r := range g.refused {
			refused[name] = append(refused[name], r.Refusal)
		}
		slices.SortFunc(refused[name], func(a, b translate.Refusal) int { return strings.Compare(a.Key, b.Key) })
	}
	return pending, refused
}

// publish sends every Config, and forgets the refusals that were handed to the
// translation and no longer stand.
func (f *fleet) publish(configs []translate.GatewayConfig, asked map[types.NamespacedName][]translate.Refusal, leftOut []translate.LeftOut) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range configs {
		c := &configs[i]
		g := f.gateways[c.Gateway]
		if g == nil {
			continue
		}
		f.publisher.Publish(c.Gateway.String(), &c.Config)
		state := f.publisher.State(c.Gateway.String())
		now := &published{generation: c.Generation, version: state.Version, at: f.now(), acked: len(state.Pods) == 0, complete: &c.Complete}
		if before := g.published; before != nil && before.version == now.version {
			now.at, now.acked = before.at, before.acked
		}
		g.published = now
	}
	stands := map[translate.LeftOut]bool{}
	for _, l := range leftOut {
		stands[translate.LeftOut{Gateway: l.Gateway, Key: l.Key}] = true
	}
	for name, list := range asked {
		for _, r := range list {
			if g := f.gateways[name]; g != nil && !stands[translate.LeftOut{Gateway: name, Key: r.Key}] {
				delete(g.refused, r.Key)
			}
		}
	}
}

// withdraw removes what was published of Gateways that are not served at all
// any more; held are those that keep what they have.
func (f *fleet) withdraw(configs []translate.GatewayConfig, held []types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	keep := make(map[types.NamespacedName]bool, len(configs)+len(held))
	for i := range configs {
		keep[configs[i].Gateway] = true
	}
	for _, name := range held {
		keep[name] = true
	}
	for name, g := range f.gateways {
		if g.published != nil && !keep[name] {
			f.publisher.Remove(name.String())
			g.published = nil
			clear(g.refused)
		}
	}
}

// served are the Configs that Gateways' pods serve, or are to.
func (f *fleet) served() map[types.NamespacedName]*routing.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[types.NamespacedName]*routing.Config, len(f.gateways))
	for name, g := range f.gateways {
		if g.published != nil {
			out[name] = g.published.complete
		}
	}
	return out
}

// podNames are the names of the gateway pods that exist, by Gateway.
func (f *fleet) podNames() map[string][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string][]string, len(f.gateways))
	for name, g := range f.gateways {
		for _, p := range g.pods {
			out[name.String()] = append(out[name.String()], p.Name)
		}
	}
	return out
}

// review looks at what pods have acknowledged and refused. again: a translation
// would say something else than the last one did; next: when to look again if
// nothing happens before, zero: never.
func (f *fleet) review() (again bool, next time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var programmed int
	for _, g := range f.gateways {
		refused := f.takeRefusals(g)
		pending, at := f.judge(g)
		again = again || refused || pending != g.told
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
		if pending == "" {
			programmed++
		}
	}
	f.metrics.setGateways(programmed, len(f.gateways)-programmed)
	return again, next
}

// takeRefusals remembers what pods refused of what was published last, and
// reports whether anything is new.
func (f *fleet) takeRefusals(g *gatewayState) (isNew bool) {
	if g.published == nil {
		return false
	}
	state := f.publisher.State(g.name.String())
	acked := len(state.Pods) > 0
	for _, pod := range state.Pods {
		if pod.Version != g.published.version {
			acked = false
			continue
		}
		for _, r := range pod.Refused {
			if _, known := g.refused[r.Key]; known {
				continue
			}
			if refused, ok := translate.NewRefusal(r.Key, r.Reason, g.published.complete); ok {
				g.refused[r.Key] = refusal{refused, pod.Pod}
				isNew = true
			}
		}
	}
	if acked && !g.published.acked {
		g.published.acked = true
		f.metrics.acknowledged(f.now().Sub(g.published.at))
	}
	return isNew
}

// judge says why a Gateway is not programmed, "" if it is, and when that may
// change by itself. A Gateway whose present generation was programmed before
// remains so for a while, unless a pod says that it failed.
func (f *fleet) judge(g *gatewayState) (pending string, next time.Time) {
	pending, patient := f.behind(g)
	switch {
	case pending == "":
		g.late, g.reached = time.Time{}, g.generation
		return "", time.Time{}
	case !patient:
		return pending, time.Time{}
	}
	if g.late.IsZero() {
		g.late = f.now()
	}
	if end := g.late.Add(patience); g.reached == g.generation && f.now().Before(end) {
		return "", end
	}
	return pending, time.Time{}
}

// behind says what keeps a Gateway's pods from serving its present generation,
// and whether that may be a matter of a moment.
func (f *fleet) behind(g *gatewayState) (why string, patient bool) {
	ready := 0
	for _, p := range g.pods {
		if p.Ready && !p.Terminating {
			ready++
		}
	}
	switch {
	case g.outcome.Err != nil:
		return "the gateway pods cannot be brought to what is asked for, and what runs goes on: " + g.outcome.Err.Error(), false
	case ready == 0 && g.outcome.Problem != "":
		return fmt.Sprintf("no gateway pod is ready, Deployment %s/%s says: %s", g.name.Namespace, g.workload, g.outcome.Problem), false
	case ready == 0:
		return fmt.Sprintf("no gateway pod is ready yet: see Deployment %s/%s and its pods", g.name.Namespace, g.workload), false
	case g.published == nil || g.published.generation != g.generation:
		return "this generation has not been sent to the gateway pods yet", true
	}
	late := g.laggards(f.publisher.State(g.name.String()))
	if len(late) == 0 {
		return "", true
	}
	return fmt.Sprintf("%d of %d ready gateway pods serve this generation; pod %s %s", ready-len(late), ready, late[0].pod, late[0].why), !late[0].failed
}

// laggard is a ready pod that does not serve what was published last.
type laggard struct {
	pod, why string
	failed   bool // it tried
}

// laggards lists the ready pods that do not serve what was published last, those
// that failed first.
func (g *gatewayState) laggards(state publish.State) []laggard {
	connected := make(map[string]*publish.PodState, len(state.Pods))
	for i := range state.Pods {
		connected[state.Pods[i].Pod] = &state.Pods[i]
	}
	var late []laggard
	for _, p := range g.pods {
		if !p.Ready || p.Terminating {
			continue
		}
		s := connected[p.Name]
		switch {
		case s == nil:
			late = append(late, laggard{p.Name, "is not connected to the controller", false})
		case s.Error != "":
			late = append(late, laggard{p.Name, "could not take it over: " + s.Error, true})
		case s.Version != g.published.version:
			late = append(late, laggard{p.Name, "has not taken it over yet", false})
		}
	}
	slices.SortFunc(late, func(a, b laggard) int {
		if a.failed != b.failed {
			if a.failed {
				return -1
			}
			return 1
		}
		return strings.Compare(a.pod, b.pod)
	})
	return late
}
