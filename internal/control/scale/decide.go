package scale

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Verb is what an Action does.
type Verb int

// The verbs.
const (
	// Wake brings the target from 0 to max(1, MinReplicas) and leaves any other
	// number alone.
	Wake Verb = iota
	// Sleep brings the target down to MinReplicas and never up.
	Sleep
	// Look reads the target's replicas. Also a Model that is never put to sleep is
	// looked at once, so that its user hears of a target that cannot be scaled.
	Look
	// Touch writes status.lastActiveTime.
	Touch
)

// String is the verb's name.
func (v Verb) String() string {
	switch v {
	case Wake:
		return "wake"
	case Sleep:
		return "sleep"
	case Look:
		return "look"
	case Touch:
		return "touch"
	}
	return fmt.Sprintf("Verb(%d)", int(v))
}

// Action is one thing to do. A Model has at most one at a time: no other comes
// before its Outcome is handed to Finish.
type Action struct {
	Verb    Verb
	Model   Model
	Waiting int           // Wake: how many requests wait
	Idle    time.Duration // Sleep: how long nothing came
	Active  time.Time     // Touch: what to write, in whole seconds
}

// Outcome is what became of an Action.
type Outcome struct {
	Err error
	// Before and After are the target's replicas; not for Touch.
	Before, After int32
}

// Decide returns what is to be done now, and when to ask again if nothing
// happens before; the zero time: never. Only the leader, who alone may take
// replicas away, asks with lead. At most room of the Actions are no Wakes; what
// is left over is asked for again after the next Finish. A Model must not be kept
// asleep by an Action that is not even begun.
func (m *Machine) Decide(now time.Time, lead bool, room int) ([]Action, time.Time) {
	d := decision{machine: m, now: now, lead: lead, room: room, known: make(map[string]time.Time, len(m.gateways))}
	for g, gw := range m.gateways {
		if since, ok := gw.knownSince(); ok {
			d.known[g] = since
		}
	}
	full := room <= 0
	start := m.turn
	for i := range m.keys {
		at := (start + i) % len(m.keys)
		d.decide(m.models[m.keys[at]])
		if !full && d.room <= 0 {
			full, m.turn = true, at+1 // who came off badly is first in turn
		}
	}
	return d.actions, d.next
}

// decision is one round of Decide.
type decision struct {
	machine *Machine
	now     time.Time
	lead    bool
	room    int
	known   map[string]time.Time // Gateways all of whose pods report, since when
	actions []Action
	next    time.Time
}

// knownSince says since when every pod of the Gateway has been reporting; false
// while one does not.
func (g *gatewayState) knownSince() (time.Time, bool) {
	var since time.Time
	for _, pod := range g.pods {
		if pod.since.IsZero() {
			return time.Time{}, false
		}
		since = later(since, pod.since)
	}
	return since, true
}

// due says whether a time has come, and remembers it where it has not.
func (d *decision) due(at time.Time) bool {
	if !at.After(d.now) {
		return true
	}
	if d.next.IsZero() || at.Before(d.next) {
		d.next = at
	}
	return false
}

func (d *decision) act(s *modelState, a Action) {
	if a.Verb != Wake {
		if d.room <= 0 {
			return
		}
		d.room--
	}
	a.Model = s.Model
	s.busy, s.stir = true, false
	d.actions = append(d.actions, a)
}

func (d *decision) decide(s *modelState) {
	if s.busy {
		return
	}
	d.dropFormer(s)
	waiting, live := d.demand(s)
	if live {
		s.active, s.asleep = d.now, false
	}
	switch {
	case (waiting > 0 || s.undo) && !s.Held && d.due(s.wake.at):
		d.act(s, Action{Verb: Wake, Waiting: waiting})
	case s.untold() && d.due(s.touch.at):
		d.act(s, Action{Verb: Touch, Active: s.active.Truncate(time.Second)})
	case d.lead && (s.IdleTimeout > 0 || !s.looked) && len(s.load) == 0:
		d.rest(s)
	}
	if live && !s.busy {
		// What runs on is activity; its next second is told when allowed.
		d.due(later(s.touch.at, d.now.Add(time.Second)))
	}
}

// demand is how many requests wait on pods that report and are named, and
// whether any request waits or runs on a pod that reports.
func (d *decision) demand(s *modelState) (waiting int, live bool) {
	for key, load := range s.load {
		gw := d.machine.gateways[key.gateway]
		if gw == nil || gw.pods[key.pod] == nil || gw.pods[key.pod].since.IsZero() {
			continue
		}
		live = true
		if slices.Contains(s.Gateways, key.gateway) {
			waiting += load.Waiting
		}
	}
	return waiting, live
}

// untold says whether there was activity that lastActiveTime does not tell.
func (s *modelState) untold() bool {
	return s.active.Truncate(time.Second).After(s.seen)
}

// rest decides about a Model without requests.
func (d *decision) rest(s *modelState) {
	if !s.looked || s.asleep {
		if d.due(s.sleep.at) {
			d.act(s, Action{Verb: Look})
		}
		return
	}
	since, known := d.idleSince(s)
	if !known {
		return // whoever makes it known brings the next round
	}
	if d.due(later(since.Add(s.IdleTimeout), s.sleep.at)) {
		d.act(s, Action{Verb: Sleep, Idle: d.now.Sub(since)})
	}
}

// idleSince is since when it has been certain that no request came; false while
// it is not.
func (d *decision) idleSince(s *modelState) (time.Time, bool) {
	since := later(later(s.since, s.upAt), s.active)
	for _, gateways := range [][]string{s.Gateways, slices.Collect(maps.Keys(s.former))} {
		for _, g := range gateways {
			if d.machine.gateways[g] == nil {
				continue // no pod
			}
			known, ok := d.known[g]
			if !ok {
				return time.Time{}, false
			}
			since = later(since, known)
		}
	}
	return since, true
}

// dropFormer forgets Gateways that have not named the Model for an idle time
// and have none of its requests left.
func (d *decision) dropFormer(s *modelState) {
	for g, until := range s.former {
		busy := false
		for key := range s.load {
			busy = busy || key.gateway == g
		}
		if !busy && d.due(until) {
			delete(s.former, g)
		}
	}
}

// Crossed says whether there was activity since the Model's action under way was
// decided: then it is no time to put it to sleep.
func (m *Machine) Crossed(model string) bool {
	s := m.models[model]
	return s == nil || s.stir
}

// Finish takes what became of an Action that Decide returned.
func (m *Machine) Finish(a Action, o Outcome, now time.Time) {
	s := m.models[a.Model.Key]
	if s == nil {
		return
	}
	s.busy = false
	switch a.Verb {
	case Touch:
		m.touched(s, a, o, now)
	case Wake:
		m.woke(s, o, now)
	case Sleep, Look:
		m.rested(s, a, o, now)
	}
}

func (m *Machine) touched(s *modelState, a Action, o Outcome, now time.Time) {
	if o.Err != nil {
		s.touch.failed(now, m.timing)
		s.touch.at = later(s.touch.at, now.Add(m.timing.Touch))
		return
	}
	s.seen = later(s.seen, a.Active)
	s.touch.succeeded(now.Add(m.timing.Touch))
}

func (m *Machine) woke(s *modelState, o Outcome, now time.Time) {
	if o.Err != nil {
		s.wake.failed(now, m.timing)
		return
	}
	s.undo, s.asleep, s.looked, s.sleptAt = false, false, true, time.Time{}
	s.wake.succeeded(now.Add(m.timing.Recheck))
	s.sleep = retry{}
	if o.Before != o.After {
		s.upAt = now
	}
}

func (m *Machine) rested(s *modelState, a Action, o Outcome, now time.Time) {
	if o.Err != nil {
		s.sleep.failed(now, m.timing)
		// It may have gone through all the same.
		s.undo = s.undo || a.Verb == Sleep && s.stir
		return
	}
	switch {
	case o.After < o.Before:
		s.sleptAt = now
		s.wake = retry{}
		s.undo = s.stir
	case o.After > s.MinReplicas && (s.asleep || !s.looked):
		s.upAt = now // somebody scaled it up: idle time counts from here
	}
	s.looked = true
	s.asleep = o.After <= s.MinReplicas && !s.stir
	s.sleep.succeeded(now)
	if s.asleep {
		s.sleep.at = now.Add(min(s.IdleTimeout, m.timing.Look))
	}
}
