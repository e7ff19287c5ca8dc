package control

import (
	"cmp"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// board is a Publisher whose gateway pods the test plays. The version of a Config
// is made of its Keys.
type board struct {
	mu        sync.Mutex
	configs   map[string]*routing.Config
	pods      map[string][]publish.PodState
	published int // calls of Publish
	removed   []string
}

func newBoard() *board {
	return &board{configs: map[string]*routing.Config{}, pods: map[string][]publish.PodState{}}
}

func (b *board) Publish(gateway string, cfg *routing.Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.configs[gateway] = cfg
	b.published++
}

func (b *board) Remove(gateway string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.configs, gateway)
	b.removed = append(b.removed, gateway)
}

func (b *board) State(gateway string) publish.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return publish.State{Version: b.version(gateway), Pods: append([]publish.PodState(nil), b.pods[gateway]...)}
}

func (b *board) version(gateway string) string {
	cfg := b.configs[gateway]
	if cfg == nil {
		return ""
	}
	version := "v"
	for _, l := range cfg.Listeners {
		version += " " + l.Key
	}
	for _, r := range cfg.Routes {
		version += " " + r.Key
		for _, rule := range r.Rules {
			for _, m := range rule.Matches {
				version += " " + m.Path
			}
		}
	}
	return version
}

// answer lets a pod say what it made of what is published; the zero State means
// that it serves all of it.
func (b *board) answer(gateway, pod string, said publish.PodState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	said.Pod = pod
	said.Version = cmp.Or(said.Version, b.version(gateway))
	for i, p := range b.pods[gateway] {
		if p.Pod == pod {
			b.pods[gateway][i] = said
			return
		}
	}
	b.pods[gateway] = append(b.pods[gateway], said)
}

func (b *board) leave(gateway string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pods, gateway)
}

func (b *board) config(gateway string) *routing.Config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.configs[gateway]
}

var (
	gatewayName = types.NamespacedName{Namespace: "ns", Name: "gw"}
	account     = provision.Name(gatewayName, "flexinfer")
)

func gatewayObject(generation int64) *gwapiv1.Gateway {
	return &gwapiv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gw", UID: "u1", Generation: generation},
		Spec:       gwapiv1.GatewaySpec{GatewayClassName: "flexinfer"},
	}
}

func readyPod(name string) watch.Pod {
	return watch.Pod{Namespace: "ns", Name: name, ServiceAccount: account, Ready: true}
}

func configOf(generation int64, routes ...string) []translate.GatewayConfig {
	c := translate.GatewayConfig{Gateway: gatewayName, Generation: generation}
	for _, r := range routes {
		c.Config.Routes = append(c.Config.Routes, routing.Route{Key: r})
	}
	c.Complete = c.Config
	return []translate.GatewayConfig{c}
}

// A Gateway is programmed when all of its ready pods, at least one, serve what
// was made from its present generation.
func TestProgrammed(t *testing.T) {
	f := func(name string, change func(*fleet, *board), want string) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBoard()
				fl := newFleet(b, nil)
				fl.observe([]*gwapiv1.Gateway{gatewayObject(1)}, []watch.Pod{readyPod("a"), readyPod("b")}, nil)
				fl.publish(configOf(1, "r1"), nil, nil)
				change(fl, b)
				pending, _ := fl.advice()
				got := pending[gatewayName]
				if want == "" && got != "" || want != "" && !strings.Contains(got, want) {
					t.Errorf("pending %q, want %q in it", got, want)
				}
			})
		})
	}
	both := func(b *board) {
		b.answer("ns/gw", "a", publish.PodState{})
		b.answer("ns/gw", "b", publish.PodState{})
	}
	see := func(fl *fleet, generation int64, pods ...watch.Pod) {
		fl.observe([]*gwapiv1.Gateway{gatewayObject(generation)}, pods, nil)
	}
	f("no pod has connected", func(*fleet, *board) {}, "0 of 2 ready gateway pods serve this generation; pod a is not connected")
	f("one of two", func(_ *fleet, b *board) { b.answer("ns/gw", "a", publish.PodState{}) }, "1 of 2 ready gateway pods serve this generation; pod b is not connected")
	f("both", func(_ *fleet, b *board) { both(b) }, "")
	f("another version", func(_ *fleet, b *board) {
		both(b)
		b.answer("ns/gw", "b", publish.PodState{Version: "old"})
	}, "pod b has not taken it over yet")
	f("a port cannot be bound", func(_ *fleet, b *board) {
		both(b)
		b.answer("ns/gw", "b", publish.PodState{Error: "port 80 is in use"})
	}, "pod b could not take it over: port 80 is in use")
	f("pods that are not ready do not count", func(fl *fleet, b *board) {
		b.answer("ns/gw", "a", publish.PodState{})
		see(fl, 1, readyPod("a"), watch.Pod{Namespace: "ns", Name: "b", ServiceAccount: account})
	}, "")
	f("draining pods do not count", func(fl *fleet, b *board) {
		b.answer("ns/gw", "a", publish.PodState{})
		gone := readyPod("b")
		gone.Terminating = true
		see(fl, 1, readyPod("a"), gone)
	}, "")
	f("pods of another ServiceAccount do not count", func(fl *fleet, b *board) {
		both(b)
		foreign := readyPod("c")
		foreign.ServiceAccount = "default"
		see(fl, 1, readyPod("a"), foreign)
	}, "")
	f("without a ready pod", func(fl *fleet, b *board) {
		both(b)
		see(fl, 1)
	}, "no gateway pod is ready yet: see Deployment ns/"+account)
	f("what Kubernetes says of missing pods", func(fl *fleet, _ *board) {
		fl.observe([]*gwapiv1.Gateway{gatewayObject(1)}, nil, map[types.NamespacedName]provision.Outcome{gatewayName: {Problem: "exceeded quota"}})
	}, "says: exceeded quota")
	f("cannot be provisioned", func(fl *fleet, b *board) {
		both(b)
		fl.observe([]*gwapiv1.Gateway{gatewayObject(1)}, []watch.Pod{readyPod("a")},
			map[types.NamespacedName]provision.Outcome{gatewayName: {Err: errors.New("service is invalid")}})
	}, "service is invalid")
	f("a new generation", func(fl *fleet, b *board) {
		both(b)
		fl.advice()
		see(fl, 2, readyPod("a"), readyPod("b"))
	}, "this generation has not been sent")
	f("a new generation that is the same to the pods", func(fl *fleet, b *board) {
		both(b)
		fl.advice()
		see(fl, 2, readyPod("a"), readyPod("b"))
		fl.publish(configOf(2, "r1"), nil, nil)
	}, "")
	f("a new route is no matter for the condition", func(fl *fleet, b *board) {
		both(b)
		fl.advice()
		fl.publish(configOf(1, "r1", "r2"), nil, nil)
	}, "")
	f("unless pods do not take it over", func(fl *fleet, b *board) {
		both(b)
		fl.advice()
		fl.publish(configOf(1, "r1", "r2"), nil, nil)
		fl.advice()
		time.Sleep(patience)
	}, "0 of 2 ready gateway pods serve this generation; pod a has not taken it over yet")
	f("or say that they cannot", func(fl *fleet, b *board) {
		both(b)
		fl.advice()
		fl.publish(configOf(1, "r1", "r2"), nil, nil)
		b.answer("ns/gw", "a", publish.PodState{Error: "no"})
	}, "pod a could not take it over: no")
	f("a lost connection is borne for a while", func(fl *fleet, b *board) {
		both(b)
		fl.advice()
		b.leave("ns/gw")
		fl.advice()
		time.Sleep(patience - time.Second)
	}, "")
	f("but not for ever", func(fl *fleet, b *board) {
		both(b)
		fl.advice()
		b.leave("ns/gw")
		fl.advice()
		time.Sleep(patience)
	}, "pod a is not connected")
	f("a Gateway made anew", func(fl *fleet, b *board) {
		both(b)
		fl.advice()
		anew := gatewayObject(1)
		anew.UID = "u2"
		fl.observe([]*gwapiv1.Gateway{anew}, []watch.Pod{readyPod("a")}, nil)
		if b.config("ns/gw") != nil {
			panic("what was published for the former Gateway is still there")
		}
	}, "this generation has not been sent")
}

// A controller that starts changes no condition before pods had time to connect.
func TestProgrammedAcrossRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl := newFleet(newBoard(), nil)
		g := gatewayObject(3)
		g.Status.Conditions = []metav1.Condition{{Type: "Programmed", Status: metav1.ConditionTrue, ObservedGeneration: 3}}
		fl.observe([]*gwapiv1.Gateway{g}, []watch.Pod{readyPod("a")}, nil)
		if pending, _ := fl.advice(); len(pending) > 0 {
			t.Errorf("pending at once: %q", pending)
		}
		fl.publish(configOf(3, "r1"), nil, nil)
		again, next := fl.review()
		if again || time.Until(next) != patience {
			t.Errorf("again %v, next in %v, want to look again in %v", again, time.Until(next), patience)
		}
		time.Sleep(patience)
		if again, _ := fl.review(); !again {
			t.Error("a pod that never came back is not noticed")
		}
	})
}

// What a pod refuses is handed to the next translation, as long as it stands.
func TestRefusals(t *testing.T) {
	b := newBoard()
	fl := newFleet(b, nil)
	fl.observe([]*gwapiv1.Gateway{gatewayObject(1)}, []watch.Pod{readyPod("a")}, nil)
	fl.advice()
	fl.publish(configOf(1, "r1", "r2"), nil, nil)
	b.answer("ns/gw", "a", publish.PodState{Version: "of another Config", Refused: []publish.Refusal{{Key: "r1", Reason: "no"}}})
	fl.review()
	if _, refused := fl.advice(); len(refused[gatewayName]) > 0 {
		t.Error("a refusal of another Config counts")
	}
	b.answer("ns/gw", "a", publish.PodState{Refused: []publish.Refusal{{Key: "r2", Reason: "bad"}, {Key: "r9", Reason: "unknown"}}})
	if again, _ := fl.review(); !again {
		t.Error("a refusal asks for no translation")
	}
	_, refused := fl.advice()
	if r := refused[gatewayName]; len(r) != 1 || r[0].Key != "r2" || r[0].Reason != "bad" {
		t.Fatalf("refused %v, want r2", refused)
	}
	if again, _ := fl.review(); again {
		t.Error("the same refusal asks for another translation")
	}
	fl.publish(configOf(1, "r1"), refused, []translate.LeftOut{{Gateway: gatewayName, Key: "r2", Reason: "bad"}})
	if _, refused = fl.advice(); len(refused[gatewayName]) != 1 {
		t.Error("a refusal that stands is forgotten")
	}
	fl.publish(configOf(1, "r1", "r2"), refused, nil) // repaired
	if _, refused = fl.advice(); len(refused[gatewayName]) != 0 {
		t.Error("a refusal of what has been repaired is kept")
	}

	b.answer("ns/gw", "a", publish.PodState{Refused: []publish.Refusal{{Key: "r2", Reason: "bad"}}})
	fl.review()
	fl.observe([]*gwapiv1.Gateway{gatewayObject(1)}, []watch.Pod{readyPod("a"), readyPod("b")}, nil)
	if _, refused = fl.advice(); len(refused[gatewayName]) != 1 {
		t.Error("another pod ends a refusal")
	}
	fl.observe([]*gwapiv1.Gateway{gatewayObject(1)}, []watch.Pod{readyPod("b")}, nil)
	if _, refused = fl.advice(); len(refused[gatewayName]) != 0 {
		t.Error("a refusal outlives its pod, though a newer one may serve the resource")
	}
}

func TestGatewayOf(t *testing.T) {
	fl := newFleet(newBoard(), nil)
	fl.observe([]*gwapiv1.Gateway{gatewayObject(1)}, nil, nil)
	f := func(namespace, name, want string) {
		t.Helper()
		got, ok := fl.gatewayOf(trust.Account{Namespace: namespace, Name: name})
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s/%s: %q, %v; want %q", namespace, name, got, ok, want)
		}
	}
	f("ns", account, "ns/gw")
	f("other", account, "")
	f("ns", "default", "")
	fl.observe(nil, nil, nil)
	f("ns", account, "")
}
