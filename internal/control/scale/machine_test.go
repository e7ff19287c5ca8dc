package scale

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	chat = "default/chat"
	gw   = "default/gw"
	idle = 30 * time.Second
)

// bench drives a Machine for one Model by a clock of its own.
type bench struct {
	*testing.T
	m     *Machine
	now   time.Time
	lead  bool
	world World
}

func newBench(t *testing.T, change func(*Model)) *bench {
	b := &bench{T: t, m: NewMachine(DefaultTiming()), now: time.Unix(1_700_000_000, 0), lead: true}
	model := Model{Key: chat, IdleTimeout: idle, Target: Target{Name: "chat"}, Gateways: []string{gw}, Generation: 1}
	if change != nil {
		change(&model)
	}
	b.world = World{Models: []Model{model}, Pods: map[string][]string{gw: {"a"}}}
	b.m.SetWorld(b.world, b.now)
	return b
}

// report lets pod a say what waits and runs.
func (b *bench) report(pod string, waiting, running int) {
	b.Helper()
	var d []Demand
	if waiting+running > 0 {
		d = []Demand{{Model: chat, Waiting: waiting, Running: running, LastActive: b.now}}
	}
	b.m.Report(gw, pod, d, b.now)
}

// verbs are what is to be done now; Looks and Touches are done at once, the
// Looks with the given number of replicas.
func (b *bench) verbs(replicas int32) []string {
	b.Helper()
	var names []string
	for range 10 {
		actions, _ := b.m.Decide(b.now, b.lead, 100)
		if len(actions) == 0 {
			return names
		}
		for _, a := range actions {
			names = append(names, a.Verb.String())
			switch a.Verb {
			case Look:
				b.finish(a, replicas, replicas)
			case Touch:
				b.finish(a, 0, 0)
			}
		}
	}
	b.Fatal("the machine does not come to rest")
	return nil
}

func (b *bench) finish(a Action, before, after int32) {
	b.m.Finish(a, Outcome{Before: before, After: after}, b.now)
}

func (b *bench) want(replicas int32, verbs ...string) {
	b.Helper()
	if diff := cmp.Diff(verbs, b.verbs(replicas)); diff != "" {
		b.Fatalf("at %s (-want +got):\n%s", b.now.UTC().Format(time.TimeOnly), diff)
	}
}

func (b *bench) pass(d time.Duration) { b.now = b.now.Add(d) }

// done finishes a Wake or Sleep that was decided.
func (b *bench) done(verb Verb, before, after int32, err error) {
	b.m.Finish(Action{Verb: verb, Model: b.world.Models[0]}, Outcome{Err: err, Before: before, After: after}, b.now)
}

func TestDemandWakes(t *testing.T) {
	b := newBench(t, nil)
	b.want(0, "look")
	b.report("a", 1, 0)
	b.want(0, "wake")
	b.report("a", 2, 0)
	b.want(0) // one at a time
	b.done(Wake, 0, 1, nil)
	b.want(1, "touch")
	b.pass(time.Second)
	b.report("a", 9, 0)
	b.want(1) // it was looked at a moment ago
	b.pass(4 * time.Second)
	b.want(1, "wake")
	b.done(Wake, 1, 1, nil)
	b.want(1, "touch")
}

func TestWakesWithoutLeading(t *testing.T) {
	b := newBench(t, nil)
	b.lead = false
	b.want(0)
	b.report("a", 1, 0)
	b.want(0, "wake")
}

func TestRunningDoesNotWake(t *testing.T) {
	b := newBench(t, nil)
	b.report("a", 0, 3)
	b.want(1, "touch")
}

func TestWakeBacksOff(t *testing.T) {
	b := newBench(t, func(m *Model) { m.IdleTimeout = 0 })
	b.report("a", 1, 0)
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		wait := time.Duration(seconds) * time.Second
		if got := b.verbs(0); len(got) == 0 || got[len(got)-1] != "wake" {
			t.Fatalf("%v instead of a wake", got)
		}
		b.done(Wake, 0, 0, errors.New("no"))
		b.pass(wait - time.Millisecond)
		for _, v := range b.verbs(0) {
			if v == "wake" {
				t.Fatalf("woken %s after a failure", wait)
			}
		}
		b.pass(time.Millisecond)
	}
	b.world.Models[0].Generation++
	b.done(Wake, 0, 0, nil)
	b.m.SetWorld(b.world, b.now)
	b.want(0, "wake")
}

func TestHeldIsNotWoken(t *testing.T) {
	b := newBench(t, func(m *Model) { m.Held = true })
	b.report("a", 1, 0)
	b.want(0, "touch")
}

func TestForeignGatewayIsIgnored(t *testing.T) {
	b := newBench(t, nil)
	b.m.Report("evil/gw", "x", []Demand{{Model: chat, Waiting: 5, LastActive: b.now}}, b.now)
	b.want(0, "look")
	b.pass(time.Hour)
	b.want(0, "look")
}

func TestIdleSleeps(t *testing.T) {
	b := newBench(t, nil)
	b.report("a", 0, 1)
	b.want(1, "touch")
	b.pass(10 * time.Minute) // one long answer
	b.want(1, "touch")
	b.report("a", 0, 0)
	b.want(1, "look")
	b.pass(idle - time.Millisecond)
	b.want(1)
	b.pass(time.Millisecond)
	b.want(1, "sleep")
	b.done(Sleep, 1, 0, nil)
	b.want(0)
	b.pass(idle)
	b.want(0, "look")
}

func TestNeverSleepsByDefault(t *testing.T) {
	b := newBench(t, func(m *Model) { m.IdleTimeout = 0 })
	b.report("a", 0, 0)
	b.want(1, "look")
	b.pass(1000 * time.Hour)
	b.want(1)
}

func TestOnlyTheLeaderSleeps(t *testing.T) {
	b := newBench(t, nil)
	b.lead = false
	b.report("a", 0, 0)
	b.pass(time.Hour)
	b.want(1)
	b.lead = true
	b.want(1, "look")
	b.pass(idle)
	b.want(1, "sleep")
}

func TestUnknownPodKeepsAwake(t *testing.T) {
	b := newBench(t, nil)
	b.world.Pods[gw] = []string{"a", "b"}
	b.m.SetWorld(b.world, b.now)
	b.report("a", 0, 0)
	b.want(1, "look")
	b.pass(time.Hour)
	b.want(1) // b has never been heard
	b.report("b", 0, 0)
	b.pass(idle - 1)
	b.want(1) // a full idle time since everything is known
	b.m.Lost(gw, "b", b.now)
	b.pass(time.Hour)
	b.want(1)
	b.world.Pods[gw] = []string{"a"} // b is gone
	b.m.SetWorld(b.world, b.now)
	b.pass(idle - 1)
	b.want(1)
	b.pass(1)
	b.want(1, "sleep")
}

func TestLostPodWithARequestKeepsAwake(t *testing.T) {
	b := newBench(t, nil)
	b.want(1, "look")
	b.report("a", 1, 1)
	b.want(1, "wake")
	b.done(Wake, 1, 1, nil)
	b.m.Lost(gw, "a", b.now)
	b.want(1, "touch")
	b.pass(time.Hour)
	b.want(1) // what it said last neither wakes nor is told again
}

func TestRaceBetweenSleepAndDemand(t *testing.T) {
	f := func(name string, cross func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.report("a", 0, 0)
			b.want(1, "look")
			b.pass(idle)
			b.want(1, "sleep")
			cross(b)
			if got := b.verbs(0); len(got) == 0 || got[0] != "wake" {
				t.Fatalf("%v instead of a wake", got)
			}
		})
	}
	f("waits before the scale-down ends", func(b *bench) {
		b.report("a", 1, 0)
		b.want(1)
		b.done(Sleep, 1, 0, nil)
	})
	f("ran and ended before the scale-down ends", func(b *bench) {
		b.report("a", 0, 1)
		b.report("a", 0, 0)
		b.done(Sleep, 1, 0, nil)
	})
	f("a scale-down whose answer was lost", func(b *bench) {
		b.report("a", 0, 1)
		b.done(Sleep, 0, 0, errors.New("timeout"))
	})
	f("runs a moment after it", func(b *bench) {
		b.done(Sleep, 1, 0, nil)
		b.pass(time.Second)
		b.report("a", 0, 1)
	})
}

func TestScaledUpByHand(t *testing.T) {
	b := newBench(t, nil)
	b.report("a", 0, 0)
	b.want(0, "look")
	b.pass(idle)
	b.want(2, "look") // somebody warms it up
	b.pass(idle - 1)
	b.want(2)
	b.pass(1)
	b.want(2, "sleep")
}

func TestMinReplicasIsTheFloor(t *testing.T) {
	b := newBench(t, func(m *Model) { m.MinReplicas = 2 })
	b.report("a", 0, 0)
	b.want(2, "look") // at the floor: asleep
	for range 10 {
		b.pass(idle)
		b.want(2, "look")
	}
	b.pass(idle)
	b.want(3, "look")
	b.pass(idle)
	b.want(3, "sleep")
}

func TestRemovedReferenceStillCounts(t *testing.T) {
	b := newBench(t, nil)
	b.report("a", 0, 1)
	b.want(1, "touch")
	b.world.Models[0].Gateways = nil
	b.m.SetWorld(b.world, b.now)
	b.pass(time.Hour)
	b.want(1, "touch") // the answer runs on
	b.report("a", 0, 0)
	b.want(1, "look")
	b.pass(idle)
	b.want(1, "sleep")
}

func TestActivityElsewhere(t *testing.T) {
	b := newBench(t, nil)
	b.report("a", 0, 0)
	b.want(1, "look")
	b.pass(idle - 1)
	b.world.Models[0].LastActive = b.now.Truncate(time.Second)
	b.m.SetWorld(b.world, b.now)
	b.pass(idle - 1)
	b.want(1)
	b.pass(1)
	b.want(1, "sleep")
}

// Two replicas of the controller hear the same activity, and each what the other
// tells of it, late: that keeps no Model awake.
func TestReplicasDoNotEcho(t *testing.T) {
	for _, lag := range []time.Duration{0, 300 * time.Millisecond, 1300 * time.Millisecond, 4 * time.Second} {
		leader, other := newBench(t, nil), newBench(t, nil)
		other.lead = false
		both := []*bench{leader, other}
		begun := map[*bench]time.Time{leader: leader.now, other: leader.now.Add(2500 * time.Millisecond)}
		type write struct{ at, told time.Time }
		var written []write
		touches := 0
		ended := leader.now.Add(10*time.Second + 700*time.Millisecond)
		for asleep := false; !asleep; {
			now := leader.now
			if now.Sub(ended) > idle+2*time.Second {
				t.Fatalf("lag %v: awake %v after the last activity, %d touches", lag, now.Sub(ended), touches)
			}
			for _, b := range both {
				running := 0
				begun, end := begun[b], ended
				if b == other {
					end = end.Add(700 * time.Millisecond) // it hears later
				}
				if !now.Before(begun) && now.Before(end) {
					running = 1
				}
				b.report("a", 0, running)
				for len(written) > 0 && !written[0].at.Add(lag).After(now) {
					for _, b := range both {
						b.world.Models[0].LastActive = later(b.world.Models[0].LastActive, written[0].told)
					}
					written = written[1:]
				}
				b.m.SetWorld(b.world, now)
				actions, _ := b.m.Decide(now, b.lead, 100)
				for _, a := range actions {
					switch a.Verb {
					case Touch:
						touches++
						written = append(written, write{now, a.Active})
						b.finish(a, 0, 0)
					case Sleep:
						asleep = true
					default:
						b.finish(a, 1, 1)
					}
				}
			}
			for _, b := range both {
				b.pass(100 * time.Millisecond)
			}
		}
		if slept := leader.now.Sub(ended); slept < idle {
			t.Errorf("lag %v: asleep %v after the last activity", lag, slept)
		}
		if touches > 10 {
			t.Errorf("lag %v: %d touches for 10 s of activity", lag, touches)
		}
	}
}

func TestTouchIsThrottled(t *testing.T) {
	b := newBench(t, func(m *Model) { m.IdleTimeout = 0 })
	b.want(1, "look")
	touches := 0
	for range 300 {
		b.report("a", 0, 1)
		touches += len(b.verbs(1))
		b.pass(100 * time.Millisecond)
	}
	b.report("a", 0, 0)
	touches += len(b.verbs(1))
	if touches < 5 || touches > 7 {
		t.Errorf("%d writes in 30 s of activity", touches)
	}
	b.pass(time.Minute)
	if got := len(b.verbs(1)); got > 1 {
		t.Errorf("%d writes after the end", got)
	}
	b.pass(time.Minute)
	b.want(1)
}

// TestAgesThatJitter: a last activity that arrives as an age seems to move with
// every report; it is one activity all the same.
func TestAgesThatJitter(t *testing.T) {
	b := newBench(t, nil)
	last := b.now
	report := func() {
		jitter := time.Duration(rand.Int64N(int64(slack)))
		b.m.Report(gw, "a", []Demand{{Model: chat, LastActive: earlier(b.now, last.Add(jitter))}}, b.now)
	}
	report()
	b.want(1, "touch", "look")
	for range int(idle / time.Second) {
		b.pass(time.Second)
		report()
		for _, verb := range b.verbs(1) {
			if verb == "sleep" {
				t.Fatalf("asleep %s after the last activity", b.now.Sub(last))
			}
		}
	}
	b.pass(slack)
	b.want(1, "sleep")
	b.done(Sleep, 1, 0, nil)
	report()
	b.want(0) // which undoes nothing
	last = b.now
	report()
	b.want(0, "wake")
}
