package control

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/internal/control/provision"
	"flexinfer.ai/gateway/internal/control/scale"
	"flexinfer.ai/gateway/internal/control/status"
	"flexinfer.ai/gateway/internal/control/watch"
	"flexinfer.ai/gateway/pkg/publish"
	"flexinfer.ai/gateway/pkg/translate"
)

// scene is a Loop over manifests, with everything that it hands out caught.
type scene struct {
	*Loop
	t     *testing.T
	board *board
	log   bytes.Buffer

	mu       sync.Mutex
	objects  translate.Resources
	pods     []watch.Pod
	panics   bool
	outcomes map[types.NamespacedName]provision.Outcome

	updates []status.Update
	submits int
	wanted  provision.Wanted
	notices []notice
	world   scale.World
}

func (s *scene) Resources(context.Context) translate.Resources {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.panics {
		panic("broken")
	}
	return s.objects
}

func (s *scene) GatewayPods() []watch.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods
}

type statusSink struct{ *scene }

func (s statusSink) Submit(u []status.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates = u
	s.submits++
}

type provisionSink struct{ *scene }

func (s provisionSink) Submit(w provision.Wanted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = w
}

func (s provisionSink) Observe([]*gwapiv1.Gateway) map[types.NamespacedName]provision.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcomes
}

type eventSink struct{ *scene }

func (s eventSink) Submit(n []notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices = n
}

type scaleSink struct{ *scene }

func (s scaleSink) SetWorld(w scale.World) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.world = w
}

// set changes the cluster.
func (s *scene) set(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	s.Changed()
	settle()
}

// settle lets everything that is due happen.
func settle() {
	time.Sleep(2 * bound)
	synctest.Wait()
}

func decode(t *testing.T, manifests ...string) translate.Resources {
	t.Helper()
	var d translate.Decoder
	for _, problem := range d.Add("in.yaml", []byte(strings.Join(manifests, "\n---\n"))) {
		t.Fatal(problem)
	}
	for i, g := range d.Resources.Gateways {
		g.Generation, g.UID = 1, types.UID("g"+string(rune('0'+i)))
	}
	for _, r := range d.Resources.HTTPRoutes {
		r.Generation, r.UID = 1, types.UID("r-"+r.Name)
	}
	for _, m := range d.Resources.Models {
		m.Generation, m.UID = 1, types.UID("m-"+m.Name)
	}
	return d.Resources
}

const (
	classManifest = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: flexinfer}
spec: {controllerName: flexinfer.ai/gateway-controller}`
	gatewayManifest = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw, namespace: ns}
spec:
  gatewayClassName: flexinfer
  listeners: [{name: http, port: 80, protocol: HTTP}]`
	routeManifest = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r1, namespace: ns}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /a}}]
    backendRefs: [{group: inference.flexinfer.ai, kind: Model, name: m}]`
	modelManifest = `
apiVersion: inference.flexinfer.ai/v1alpha2
kind: Model
metadata: {name: m, namespace: ns}
spec: {backend: vllm, source: "HF://a/b", serverless: {idleTimeout: 5m}}
---
apiVersion: v1
kind: Service
metadata: {name: m, namespace: ns}
spec: {clusterIP: 10.0.0.9, ports: [{name: http, port: 8000}]}`
)

// play runs a scene in a bubble, after the first translation.
func play(t *testing.T, act func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, board: newBoard(), objects: decode(t, classManifest, gatewayManifest, routeManifest, modelManifest)}
		s.Loop = NewLoop(LoopOptions{
			Source: s, Publisher: s.board, Settings: func() provision.Settings { return provision.Settings{Image: "image"} },
			Statuses: statusSink{s}, Provision: provisionSink{s}, Events: eventSink{s}, Scale: scaleSink{s},
			IdleTimeout: time.Hour, Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(ctx, func() {})
		}()
		settle()
		act(s)
		cancel()
		<-ended
		synctest.Wait()
	})
}

// condition is the Gateway's or route's condition that the last round asks for,
// as "Status/Reason: message".
func (s *scene) condition(kind, name, condition string) string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.updates {
		if u.Kind != kind || u.Held.GetName() != name {
			continue
		}
		for _, c := range conditionsOf(s.t, u.Want) {
			if c.Type == condition {
				return string(c.Status) + "/" + c.Reason + ": " + c.Message
			}
		}
	}
	return ""
}

func (s *scene) want(got, want string) {
	s.t.Helper()
	if !strings.Contains(got, want) {
		s.t.Errorf("got %q, want %q in it", got, want)
	}
}

// A Gateway's way: published and provisioned, then programmed by its pod's word,
// with the address of its Service.
func TestLoopProgramsGateway(t *testing.T) {
	play(t, func(s *scene) {
		if s.board.config("ns/gw") == nil || !s.Translated() {
			t.Fatal("nothing is published after the first translation")
		}
		if len(s.wanted.Gateways) != 1 || s.wanted.Settings.Image != "image" || len(s.wanted.All) != 1 {
			t.Errorf("provisions %+v", s.wanted)
		}
		s.want(s.condition("Gateway", "gw", "Programmed"), "False/AddressNotAssigned")
		s.set(func() {
			s.pods = []watch.Pod{readyPod("a")}
			s.outcomes = map[types.NamespacedName]provision.Outcome{gatewayName: {Addresses: gatewayAddresses("10.1.1.1")}}
		})
		s.want(s.condition("Gateway", "gw", "Programmed"), "False/Pending: 0 of 1 ready gateway pods")
		s.board.answer("ns/gw", "a", publish.PodState{})
		s.Heard("ns/gw")
		settle()
		s.want(s.condition("Gateway", "gw", "Programmed"), "True/Programmed")
		submits := s.submits
		s.Heard("ns/gw") // nothing new
		settle()
		if s.submits != submits {
			t.Error("an acknowledgement that changes nothing made a translation")
		}
	})
}

// One refused resource is left out, its route says so, and its repair is served
// at once.
func TestLoopLeavesOutRefused(t *testing.T) {
	play(t, func(s *scene) {
		s.set(func() { s.pods = []watch.Pod{readyPod("a")} })
		s.board.answer("ns/gw", "a", publish.PodState{Refused: []publish.Refusal{{Key: "HTTPRoute/ns/r1", Reason: "the ring is too big"}}})
		s.Heard("ns/gw")
		settle()
		if n := len(s.board.config("ns/gw").Routes); n != 0 {
			t.Errorf("%d routes published, want the refused one left out", n)
		}
		s.want(s.condition("HTTPRoute", "r1", "Accepted"), "False/UnsupportedValue: the data plane of Gateway ns/gw refused this and serves the rest: the ring is too big")
		var told string
		for _, n := range s.notices {
			told += n.kind + " " + n.reason + ": " + n.text + "\n"
		}
		s.want(told, "Gateway ResourceRefused: HTTPRoute/ns/r1 is left out")
		s.want(told, "HTTPRoute Invalid: the data plane")
		s.board.answer("ns/gw", "a", publish.PodState{})
		s.set(func() {
			s.objects = decode(t, classManifest, gatewayManifest, strings.Replace(routeManifest, "/a", "/b", 1), modelManifest)
		})
		if n := len(s.board.config("ns/gw").Routes); n != 1 {
			t.Errorf("%d routes published, want the repaired one", n)
		}
		s.want(s.condition("HTTPRoute", "r1", "Accepted"), "True/Accepted")
	})
}

// A Gateway that is not accepted keeps what it serves; one that goes takes it along.
func TestLoopHoldsAndRemoves(t *testing.T) {
	play(t, func(s *scene) {
		before := s.board.config("ns/gw")
		s.set(func() {
			s.objects = decode(t, classManifest, strings.Replace(gatewayManifest, "HTTP}", "UDP}", 1), routeManifest, modelManifest)
		})
		if s.board.config("ns/gw") != before {
			t.Error("a Gateway that is not accepted lost what it serves")
		}
		if len(s.wanted.Held) != 1 {
			t.Errorf("held %v, want the Gateway", s.wanted.Held)
		}
		s.set(func() { s.objects = decode(t, classManifest, routeManifest, modelManifest) })
		if s.board.config("ns/gw") != nil {
			t.Error("a Gateway that is gone is still published")
		}
		s.set(func() {
			s.objects = decode(t, classManifest, strings.Replace(gatewayManifest, "flexinfer", "other", 1), routeManifest, modelManifest)
		})
		if s.board.config("ns/gw") != nil || len(s.wanted.Held) != 0 {
			t.Error("a Gateway of another class is served")
		}
	})
}

// A translation that panics ends nothing: the next one goes on.
func TestLoopSurvivesPanic(t *testing.T) {
	play(t, func(s *scene) {
		before := s.board.config("ns/gw")
		s.set(func() { s.panics = true })
		if s.board.config("ns/gw") != before {
			t.Error("what was published is gone")
		}
		s.want(s.log.String(), "BUG: a translation failed")
		s.mu.Lock()
		s.panics = false
		s.objects = decode(t, classManifest, gatewayManifest)
		s.mu.Unlock()
		time.Sleep(panicRetry)
		settle()
		if n := len(s.board.config("ns/gw").Routes); n != 0 {
			t.Error("a round that panicked is not tried again")
		}
	})
}

func TestLoopWorld(t *testing.T) {
	play(t, func(s *scene) {
		s.set(func() { s.pods = []watch.Pod{readyPod("a")} })
		if len(s.world.Models) != 1 {
			t.Fatalf("world %+v, want one Model", s.world)
		}
		m := s.world.Models[0]
		if m.Key != "ns/m" || m.IdleTimeout != 5*time.Minute || len(m.Gateways) != 1 || m.Gateways[0] != "ns/gw" || m.Target.Kind != "Deployment" {
			t.Errorf("Model %+v", m)
		}
		if pods := s.world.Pods["ns/gw"]; len(pods) != 1 || pods[0] != "a" {
			t.Errorf("pods %v", s.world.Pods)
		}
	})
}
