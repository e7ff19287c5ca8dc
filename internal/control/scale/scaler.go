package scale

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// actionTimeout bounds what one action does, and the telling of it.
	actionTimeout = 15 * time.Second
	// wakeLane and restLane are how many actions go on at a time: whoever waits for
	// a Model does not stand behind the Models that nobody waits for.
	wakeLane = 64
	restLane = 8
)

// Recorder records events; client-go's record.EventRecorder is one.
type Recorder interface {
	Event(about runtime.Object, eventType, reason, message string)
}

// Options are the parts of a Scaler; all but Timing and Metrics are required.
type Options struct {
	// Client reads and writes scale subresources and writes statuses. A limit on its
	// calls makes waiting requests wait for whatever else it limits.
	Client client.Client
	// Models reads Models; a cache is well suited.
	Models   client.Reader
	Recorder Recorder
	Logger   *slog.Logger
	Metrics  *Metrics
	Timing   Timing // zero: DefaultTiming
}

// Scaler carries out what its Machine decides. All methods but Run never block;
// they may be called by any goroutine, before Run too.
type Scaler struct {
	o Options
	c *carrier

	mu      sync.Mutex // guards machine, lead and rests; time is read under it
	machine *Machine
	lead    bool
	rests   int // actions under way that are no Wakes
	news    chan struct{}
}

// NewScaler makes a Scaler; Run brings it to life.
func NewScaler(o Options) *Scaler {
	if o.Timing == (Timing{}) {
		o.Timing = DefaultTiming()
	}
	s := &Scaler{o: o, machine: NewMachine(o.Timing), news: make(chan struct{}, 1)}
	s.c = &carrier{o: o, crossed: s.crossed, told: map[string]told{}}
	return s
}

// SetWorld takes over what the API server tells now. Nothing is done before the
// first one, and nothing sleeps before it has been whole for an idle time.
func (s *Scaler) SetWorld(w World) {
	s.tell(func(now time.Time) { s.machine.SetWorld(w, now) })
}

// Report takes what one gateway pod says of all Models that it has demand for;
// gateway is "namespace/name".
func (s *Scaler) Report(gateway, pod string, demand []Demand) {
	s.tell(func(now time.Time) { s.machine.Report(gateway, pod, demand, now) })
}

// Lost says that a gateway pod is out of touch.
func (s *Scaler) Lost(gateway, pod string) {
	s.tell(func(now time.Time) { s.machine.Lost(gateway, pod, now) })
}

// SetLeader says whether this replica leads: the leader alone puts Models to
// sleep. At first it does not.
func (s *Scaler) SetLeader(lead bool) {
	s.tell(func(time.Time) { s.lead = lead })
}

func (s *Scaler) tell(f func(now time.Time)) {
	s.mu.Lock()
	f(time.Now())
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// crossed says whether there was activity since the Model's action under way was
// decided.
func (s *Scaler) crossed(model string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Crossed(model)
}

// Run carries actions out until ctx ends, and returns when none is under way.
func (s *Scaler) Run(ctx context.Context) {
	var under sync.WaitGroup
	defer under.Wait()
	wakes := make(chan struct{}, wakeLane)
	for {
		actions, wait := s.decide()
		for _, a := range actions {
			under.Go(func() { s.act(ctx, a, wakes) })
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.news:
		case <-timer:
		}
	}
}

// decide returns what is to be begun, and after which time to decide again if
// nothing happens before; 0: never.
func (s *Scaler) decide() (actions []Action, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	actions, next := s.machine.Decide(now, s.lead, restLane-s.rests)
	for _, a := range actions {
		if a.Verb != Wake {
			s.rests++
		}
	}
	if !next.IsZero() {
		wait = max(next.Sub(now), time.Millisecond)
	}
	return actions, wait
}

// act carries one action out, a Wake when its lane has room, and hands its
// Outcome back.
func (s *Scaler) act(ctx context.Context, a Action, wakes chan struct{}) {
	outcome := Outcome{Err: context.Canceled}
	if a.Verb == Wake {
		select {
		case wakes <- struct{}{}:
			outcome = s.attempt(ctx, a)
			<-wakes
		case <-ctx.Done():
		}
	} else {
		outcome = s.attempt(ctx, a)
	}
	s.o.Metrics.count(a.Verb, outcome)
	s.tell(func(now time.Time) {
		if a.Verb != Wake {
			s.rests--
		}
		s.machine.Finish(a, outcome, now)
	})
}

// attempt is one action; a panic is its failure.
func (s *Scaler) attempt(ctx context.Context, a Action) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			o = Outcome{Err: fmt.Errorf("BUG: panic: %v", p)}
			s.o.Logger.Error("BUG: an action on a Model failed; it is tried again", "action", a.Verb, "model", a.Model.Key,
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	return s.c.carry(ctx, a)
}
