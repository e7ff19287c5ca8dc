package scale

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestSimulation lets a Machine run Models in a small world in which requests,
// gateway pods, connections, controllers, users and the API server do what they
// like, and compares what it does with the truth that it cannot see.
func TestSimulation(t *testing.T) {
	runs := 200
	if testing.Short() {
		runs = 50
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	slept, woken := 0, 0
	for i := range runs {
		s := newSimulation(t, seed+uint64(i))
		if !t.Run(fmt.Sprint(s.seed), func(t *testing.T) { s.t = t; s.run(400) }) {
			return
		}
		slept, woken = slept+s.slept, woken+s.woken
	}
	t.Logf("scaled down %d times in the disturbed part, up %d times", slept, woken)
	if slept < runs/2 || woken < runs/2 {
		t.Errorf("only %d scaled down and %d up in %d runs: the simulation shows little", slept, woken, runs)
	}
}

// simulation is the truth.
type simulation struct {
	t            *testing.T
	seed         uint64
	rand         *rand.Rand
	now          time.Time
	m            *Machine
	began        time.Time // of the machine
	models       map[string]*simModel
	pods         map[podKey]*simPod
	named        int // pods so far
	flight       []simAction
	calm         bool // nothing fails any more
	slept, woken int  // in the disturbed part
}

type simModel struct {
	Model
	replicas int32
	worked   time.Time // when a request last was there
	busy     bool
	touched  time.Time // when lastActiveTime was last written by the machine
}

type simPod struct {
	connected        bool
	waiting, running map[string]int
	active           map[string]time.Time
}

type simAction struct {
	Action
	at time.Time
	m  *Machine
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1_700_000_000, 0),
		models: map[string]*simModel{}, pods: map[podKey]*simPod{},
	}
	for i := range 3 {
		key := fmt.Sprintf("ns/m%d", i)
		s.models[key] = &simModel{worked: s.now, replicas: int32(s.rand.IntN(4)), Model: Model{
			Key: key, MinReplicas: int32(s.rand.IntN(3)), Generation: 1,
			IdleTimeout: []time.Duration{0, 7 * time.Second, time.Minute}[s.rand.IntN(3)],
			Gateways:    [][]string{{"g0"}, {"g1"}, {"g0", "g1"}}[s.rand.IntN(3)],
		}}
	}
	s.restart()
	return s
}

func (s *simulation) restart() {
	s.m, s.began = NewMachine(DefaultTiming()), s.now
	for _, p := range s.pods {
		p.connected = false
	}
	for _, m := range s.models {
		m.busy, m.touched = false, time.Time{}
	}
	s.tellWorld()
}

func (s *simulation) tellWorld() {
	w := World{Pods: map[string][]string{}}
	for _, key := range s.keys() {
		w.Models = append(w.Models, s.models[key].Model)
	}
	for k := range s.pods {
		w.Pods[k.gateway] = append(w.Pods[k.gateway], k.pod)
	}
	s.m.SetWorld(w, s.now)
}

func (s *simulation) keys() []string { return slices.Sorted(maps.Keys(s.models)) }

func (s *simulation) podKeys() []podKey {
	return slices.SortedFunc(maps.Keys(s.pods), func(a, b podKey) int {
		return slices.Compare([]string{a.gateway, a.pod}, []string{b.gateway, b.pod})
	})
}

func (s *simulation) run(steps int) {
	for range steps {
		s.pass(time.Duration(s.rand.Int64N(int64(4 * time.Second))))
		s.event()
		s.decide()
	}
	s.settle()
}

// pass moves the clock, stopping wherever something is due.
func (s *simulation) pass(d time.Duration) {
	end := s.now.Add(d)
	for range 10_000 {
		next := end
		if due := s.decide(); !due.IsZero() {
			next = earlier(next, due)
		}
		for _, a := range s.flight {
			next = earlier(next, a.at)
		}
		s.now = later(s.now, next)
		for _, m := range s.models {
			if w, r := s.load(m.Key); w+r > 0 {
				m.worked = s.now
			}
		}
		s.land()
		if !s.now.Before(end) {
			return
		}
	}
	s.t.Fatal("the clock does not come to its end")
}

// load is what waits and runs on pods that exist.
func (s *simulation) load(model string) (waiting, running int) {
	for _, p := range s.pods {
		waiting += p.waiting[model]
		running += p.running[model]
	}
	return waiting, running
}

// decide asks the machine, checks what it wants to do and sets about it; the
// time is when to ask again.
func (s *simulation) decide() time.Time {
	room := 1 + len(s.models)/3
	for _, a := range s.flight {
		if a.m == s.m && a.Verb != Wake {
			room--
		}
	}
	actions, next := s.m.Decide(s.now, true, room)
	for _, a := range actions {
		if a.Verb != Wake {
			if room--; room < 0 {
				s.t.Fatalf("more actions than there is room for")
			}
		}
		m := s.models[a.Model.Key]
		if m.busy {
			s.t.Fatalf("%s of %s beside another action", a.Verb, m.Key)
		}
		m.busy = true
		switch a.Verb {
		case Sleep:
			s.checkSleep(m)
		case Wake:
			if w, _ := s.load(m.Key); w == 0 && a.Waiting > 0 {
				s.t.Fatalf("%s woken for nobody", m.Key)
			}
		case Touch:
			if !m.touched.IsZero() && s.now.Sub(m.touched) < 5*time.Second {
				s.t.Fatalf("%s touched twice within %s", m.Key, s.now.Sub(m.touched))
			}
			if a.Active.After(s.now) || !a.Active.After(a.Model.LastActive) {
				s.t.Fatalf("%s touched with %s, it held %s, now is %s", m.Key, a.Active, a.Model.LastActive, s.now)
			}
		}
		delay := time.Duration(0)
		if s.rand.IntN(2) == 0 {
			delay = time.Duration(s.rand.Int64N(int64(3 * time.Second)))
		}
		s.flight = append(s.flight, simAction{a, s.now.Add(delay), s.m})
	}
	return next
}

func (s *simulation) checkSleep(m *simModel) {
	w, r := s.load(m.Key)
	switch {
	case m.IdleTimeout == 0:
		s.t.Fatalf("%s put to sleep without an idle time", m.Key)
	case w+r > 0:
		s.t.Fatalf("%s put to sleep with %d waiting and %d running", m.Key, w, r)
	case s.now.Sub(m.worked) < m.IdleTimeout:
		s.t.Fatalf("%s put to sleep %s after its last request", m.Key, s.now.Sub(m.worked))
	case s.now.Sub(s.began) < m.IdleTimeout:
		s.t.Fatalf("%s put to sleep %s after the controller's start", m.Key, s.now.Sub(s.began))
	}
	for k, p := range s.pods {
		if !p.connected && slices.Contains(m.Gateways, k.gateway) {
			s.t.Fatalf("%s put to sleep while nobody knows what %v does", m.Key, k)
		}
	}
}

// land lets the actions happen whose time has come.
func (s *simulation) land() {
	var rest, due []simAction
	for _, a := range s.flight {
		if a.at.After(s.now) {
			rest = append(rest, a)
		} else {
			due = append(due, a)
		}
	}
	s.flight = rest
	for _, a := range due {
		m := s.models[a.Model.Key]
		o := Outcome{Before: m.replicas, After: m.replicas}
		fails := !s.calm && s.rand.IntN(6) == 0
		if !fails || s.rand.IntN(2) == 0 { // a failure may have gone through
			o.After = s.apply(a.Action, m)
			if o.After < o.Before && !s.calm {
				s.slept++
			} else if o.After > o.Before && !s.calm {
				s.woken++
			}
		}
		if fails {
			o.Err = errors.New("no answer")
		}
		if a.m == s.m { // else the controller that wanted it is gone
			if m.busy = false; a.Verb == Touch {
				m.touched = s.now
			}
			s.m.Finish(a.Action, o, s.now)
		}
	}
}

func (s *simulation) apply(a Action, m *simModel) int32 {
	switch a.Verb {
	case Wake:
		if m.replicas == 0 {
			m.replicas = max(1, m.MinReplicas)
		}
	case Sleep:
		m.replicas = min(m.replicas, m.MinReplicas)
	case Touch:
		m.LastActive = later(m.LastActive, a.Active)
	}
	return m.replicas
}

// event lets one thing happen.
func (s *simulation) event() {
	keys := s.keys()
	m := s.models[keys[s.rand.IntN(len(keys))]]
	var pod podKey
	if pods := s.podKeys(); len(pods) > 0 {
		pod = pods[s.rand.IntN(len(pods))]
	}
	p := s.pods[pod]
	switch n := s.rand.IntN(100); {
	case n < 12 || p == nil:
		s.startPod()
	case n < 18:
		s.stopPod(pod)
	case n < 35:
		s.setConnected(pod, !p.connected)
	case n < 36:
		s.restart()
	case n < 40:
		m.replicas = int32(s.rand.IntN(3))
	case n < 65:
		s.request(pod, m)
	case n < 90:
		s.finish(pod, m)
	default:
		s.tellWorld()
	}
}

func (s *simulation) startPod() {
	if len(s.pods) >= 4 {
		return
	}
	s.named++
	key := podKey{fmt.Sprintf("g%d", s.rand.IntN(2)), fmt.Sprintf("p%d", s.named)}
	s.pods[key] = &simPod{waiting: map[string]int{}, running: map[string]int{}, active: map[string]time.Time{}}
	s.tellWorld()
}

// stopPod ends a pod; its end is heard of by both ways, in either order.
func (s *simulation) stopPod(key podKey) {
	first := s.rand.IntN(2) == 0
	if first {
		s.m.Lost(key.gateway, key.pod, s.now)
	}
	delete(s.pods, key)
	s.tellWorld()
	if !first {
		s.m.Lost(key.gateway, key.pod, s.now)
	}
}

func (s *simulation) setConnected(key podKey, connected bool) {
	s.pods[key].connected = connected
	if connected {
		s.report(key)
	} else {
		s.m.Lost(key.gateway, key.pod, s.now)
	}
}

func (s *simulation) report(key podKey) {
	p := s.pods[key]
	if !p.connected {
		return
	}
	var demand []Demand
	for _, model := range s.keys() {
		d := Demand{Model: model, Waiting: p.waiting[model], Running: p.running[model], LastActive: p.active[model]}
		if d.Waiting+d.Running > 0 || s.rand.IntN(2) == 0 {
			demand = append(demand, d)
		}
	}
	s.m.Report(key.gateway, key.pod, demand, s.now)
}

func (s *simulation) request(key podKey, m *simModel) {
	if !slices.Contains(m.Gateways, key.gateway) {
		return
	}
	p := s.pods[key]
	m.worked, p.active[m.Key] = s.now, s.now
	if m.replicas == 0 {
		p.waiting[m.Key]++
	} else {
		p.running[m.Key] += p.waiting[m.Key] + 1
		p.waiting[m.Key] = 0
	}
	s.report(key)
}

func (s *simulation) finish(key podKey, m *simModel) {
	p := s.pods[key]
	if p.waiting[m.Key]+p.running[m.Key] == 0 {
		return
	}
	p.waiting[m.Key], p.running[m.Key] = 0, 0
	m.worked, p.active[m.Key] = s.now, s.now
	s.report(key)
}

// settle ends the disturbances: whoever waits gets a replica, and when nobody
// does any more, everything goes to its floor.
func (s *simulation) settle() {
	s.calm = true
	for range 2 {
		s.startPod()
	}
	for _, key := range s.podKeys() {
		s.pods[key].connected = true
		s.report(key)
	}
	s.pass(2 * time.Minute) // whatever is under way and backed off
	for _, m := range s.models {
		m.replicas = 0
		for _, key := range s.podKeys() {
			s.request(key, m)
		}
	}
	s.pass(2 * time.Minute)
	for _, m := range s.models {
		if w, _ := s.load(m.Key); w > 0 && m.replicas != max(1, m.MinReplicas) {
			s.t.Fatalf("%s has %d replicas with requests waiting", m.Key, m.replicas)
		}
	}
	for _, m := range s.models {
		m.replicas = max(m.replicas, 3)
		for _, key := range s.podKeys() {
			s.finish(key, m)
		}
	}
	s.pass(10 * time.Minute)
	for _, m := range s.models {
		want := m.MinReplicas
		if m.IdleTimeout == 0 {
			want = 3
		}
		if m.replicas != want {
			s.t.Fatalf("%s (idle time %s) rests at %d replicas instead of %d", m.Key, m.IdleTimeout, m.replicas, want)
		}
		if got := m.worked.Truncate(time.Second); m.LastActive.Before(got) && s.served(m) {
			s.t.Fatalf("%s was active at %s, its status says %s", m.Key, got, m.LastActive)
		}
	}
}

// served says whether a pod carries the Model's requests.
func (s *simulation) served(m *simModel) bool {
	return slices.ContainsFunc(s.podKeys(), func(k podKey) bool { return slices.Contains(m.Gateways, k.gateway) })
}
