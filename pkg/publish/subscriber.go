package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"flexinfer.ai/gateway/pkg/routing"
)

// SubscriberOptions is what a Subscriber needs. Initial, Demand and ServerName
// may be left out.
type SubscriberOptions struct {
	Logger     *slog.Logger
	Controller string // "host:port" of the controller's Service
	// ServerName is the DNS name that the controller's certificate must have; "":
	// the host of Controller.
	ServerName string
	// CAFile holds the certificates that are trusted, PEM; TokenFile this pod's
	// ServiceAccount token. Both are read anew whenever they are needed.
	CAFile    string
	TokenFile string
	// Initial is the last good Config: it is applied until the controller is heard.
	Initial *routing.Config
	// Apply serves a Config. Calls come one after the other.
	Apply func(*routing.Config) Applied
	// Demand is what goes on now. It must not block.
	Demand func() []ModelDemand
}

// Applied is what became of a Config.
type Applied struct {
	// Refused are the resources that were left out, by Key and Reason.
	Refused []Refusal
	// Error is why the Config is not, or not wholly, in force.
	Error error
	// Retry is after what time to apply the same Config again; 0: never.
	Retry time.Duration
}

// Subscriber keeps a gateway pod's streams to its controller.
type Subscriber struct {
	o     SubscriberOptions
	enrol enrollment
	kick  chan struct{} // capacity 1: look at the demand now
	stir  chan struct{} // capacity 1: sessions, peers or a retry need a look

	applying  sync.Mutex // orders Apply; guards resources and generation
	resources map[resourceID]*resource
	whole     whole
	anew      bool // what is held is in doubt: the next change is to be all of it

	mu       sync.Mutex
	sessions map[*session]bool
	followed *session
	ack      *acknowledgment
	demand   *demand
	sampled  []ModelDemand
	retryAt  time.Time
	pauses   map[string]*pause // by address
	received Received
}

// Received is what a pod was sent since it began.
type Received struct {
	Changes          uint64 // each makes another Config
	Resources        uint64 // that were new or changed
	Bytes            uint64 // of their content
	RemovedResources uint64
}

// NewSubscriber makes a Subscriber; nothing happens before Run.
func NewSubscriber(o SubscriberOptions) (*Subscriber, error) {
	host, _, err := net.SplitHostPort(o.Controller)
	if err != nil || host == "" {
		return nil, fmt.Errorf("controller address %q is not host:port", o.Controller)
	}
	if o.ServerName == "" {
		o.ServerName = host
	}
	s := &Subscriber{
		o:     o,
		kick:  make(chan struct{}, 1),
		stir:  make(chan struct{}, 1),
		enrol: enrollment{caFile: o.CAFile, tokenFile: o.TokenFile, serverName: o.ServerName},

		resources: map[resourceID]*resource{},
		sessions:  map[*session]bool{},
		pauses:    map[string]*pause{},
	}
	if o.Initial != nil {
		r, err := newRevision(o.Initial, nil)
		if err != nil {
			return nil, err
		}
		s.resources, s.whole = r.resources, r.whole
	}
	return s, nil
}

// Kick has the demand looked at, and sent, at once. It never blocks.
func (s *Subscriber) Kick() { signal(s.kick) }

// Following reports whether there is a stream whose Config is applied.
func (s *Subscriber) Following() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.followed != nil
}

// Received tells what was sent so far, the last good Config not counted.
func (s *Subscriber) Received() Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received
}

// count counts a change.
func (s *Subscriber) count(set []resource, removed []resourceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received.Changes++
	s.received.Resources += uint64(len(set))
	s.received.RemovedResources += uint64(len(removed))
	for i := range set {
		s.received.Bytes += uint64(len(set[i].Content))
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sampleEvery is how often changed demand is told without a Kick.
const sampleEvery = 2 * time.Second

// Run keeps the streams open until ctx ends.
func (s *Subscriber) Run(ctx context.Context) {
	s.begin()
	var running sync.WaitGroup
	defer running.Wait()
	sample := time.NewTicker(sampleEvery)
	defer sample.Stop()
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
			s.sample()
		case <-sample.C:
			s.sample()
		case <-s.stir:
		case <-look.C:
		}
		s.reapply()
		for _, address := range s.missing(time.Now()) {
			session := s.open(address)
			running.Go(func() { s.keep(ctx, session) })
		}
		look.Reset(s.nextLook(time.Now()))
	}
}

// begin applies the last good Config.
func (s *Subscriber) begin() {
	s.applying.Lock()
	defer s.applying.Unlock()
	if s.whole.Version != "" {
		s.settle()
	}
}

// sample has the demand sent if it is another than what was sent last.
func (s *Subscriber) sample() {
	if s.o.Demand == nil {
		return
	}
	models := s.o.Demand()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.demand != nil && reflect.DeepEqual(models, s.sampled) {
		return
	}
	s.sampled = models
	s.demand = &demand{Models: make([]modelDemand, len(models))}
	for i, m := range models {
		s.demand.Models[i] = modelDemand{Model: m.Model, Waiting: m.Waiting, Running: m.Running, Idle: -1}
	}
	s.wakeSessions()
}

// aged is the demand with the ages of now. Levels may be sent again any time.
func (s *Subscriber) aged(now time.Time) *demand {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.demand == nil {
		return nil
	}
	d := &demand{Models: append([]modelDemand(nil), s.demand.Models...)}
	for i, m := range s.sampled {
		if !m.LastActive.IsZero() {
			d.Models[i].Idle = max(now.Sub(m.LastActive).Milliseconds(), 0)
		}
	}
	return d
}

// wakeSessions lets every session look for what to send; s.mu is held.
func (s *Subscriber) wakeSessions() {
	for session := range s.sessions {
		signal(session.woken)
	}
}

// missing are the addresses to which a stream is wanted and absent, and may be
// tried now: those of the followed replica's peers; the Service's while there is
// none at all.
func (s *Subscriber) missing(now time.Time) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) == 0 {
		return s.due([]string{s.o.Controller}, now)
	}
	if s.followed == nil {
		return nil
	}
	instances, addresses := map[string]bool{}, map[string]bool{}
	for session := range s.sessions {
		instances[session.instance], addresses[session.address] = true, true
	}
	var wanted []string
	for instance, address := range s.followed.peers {
		if !instances[instance] && !addresses[address] {
			wanted = append(wanted, address)
		}
	}
	return s.due(wanted, now)
}

func (s *Subscriber) due(addresses []string, now time.Time) (due []string) {
	for _, address := range addresses {
		if p := s.pauses[address]; p == nil || !now.Before(p.until) {
			due = append(due, address)
		}
	}
	return due
}

// pause is how long an address that failed is left alone.
type pause struct {
	fails int
	until time.Time
	said  string // the failure that was logged
}

// The pauses after failures in a row.
const (
	pauseFirst   = 250 * time.Millisecond
	pauseLongest = 10 * time.Second
)

// nextLook is how long Run may sleep.
func (s *Subscriber) nextLook(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := now.Add(time.Minute)
	earlier := func(t time.Time) {
		if t.After(now) && t.Before(next) {
			next = t
		}
	}
	earlier(s.retryAt)
	for address, p := range s.pauses {
		earlier(p.until)
		if now.Sub(p.until) > time.Hour { // a replica that is no more
			delete(s.pauses, address)
		}
	}
	return next.Sub(now) + time.Millisecond
}

func (s *Subscriber) open(address string) *session {
	session := &session{address: address, woken: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[session] = true
	return session
}

// keep runs a session to its end and says what that means.
func (s *Subscriber) keep(ctx context.Context, session *session) {
	err := session.run(ctx, s)
	defer signal(s.stir)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session)
	if s.followed == session {
		s.followed = nil
		s.electFollowed()
	}
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, errRenew) {
		delete(s.pauses, session.address)
		return
	}
	s.failed(session, err)
}

// failed notes that a session ended; s.mu is held.
func (s *Subscriber) failed(session *session, err error) {
	p := s.pauses[session.address]
	if p == nil || session.instance != "" {
		p = &pause{}
		s.pauses[session.address] = p
	}
	wait := min(pauseFirst<<min(p.fails, 10), pauseLongest)
	p.fails++
	p.until = time.Now().Add(wait)
	if reason := err.Error(); reason != p.said {
		p.said = reason
		s.o.Logger.Warn("no stream to the controller; what is served goes on", "address", session.address, "reason", reason)
	}
}

// electFollowed follows an open session if none is followed, one whose replica is
// not stale if there is one; s.mu is held.
func (s *Subscriber) electFollowed() {
	if s.followed != nil {
		return
	}
	for session := range s.sessions {
		if session.instance != "" && (s.followed == nil || s.followed.stale) {
			s.followed = session
		}
	}
	if s.followed != nil {
		signal(s.followed.woken)
	}
}

// greeted notes what a replica says of itself. A session is followed to its end, so
// one whose replica is stale ends where another's is not.
func (s *Subscriber) greeted(session *session, m *downstream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sessions[session] {
		return // it has ended
	}
	session.instance, session.peers, session.stale = m.Instance, maps.Clone(m.Peers), m.Stale
	s.electFollowed()
	signal(s.stir)
	if !s.followed.stale || s.followed.end == nil {
		return
	}
	for other := range s.sessions {
		if other.instance != "" && !other.stale {
			s.followed.end(errStale)
			return
		}
	}
}

// held are the versions that this pod holds; none where they are in doubt.
func (s *Subscriber) held() map[resourceID]string {
	s.applying.Lock()
	defer s.applying.Unlock()
	if s.anew {
		return nil
	}
	held := make(map[resourceID]string, len(s.resources))
	for id, r := range s.resources {
		held[id] = r.Version
	}
	return held
}

// take makes a complete change the Config in force.
func (s *Subscriber) take(set []resource, removed []resourceID, w whole) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.count(set, removed)
	next := map[resourceID]*resource{}
	if !s.anew {
		maps.Copy(next, s.resources)
	}
	for _, id := range removed {
		delete(next, id)
	}
	for i := range set {
		r := &set[i]
		r.unreadable = r.decode()
		next[r.ID] = r
	}
	if version := wholeVersion(next); version != w.Version {
		s.anew = true // what is served goes on
		return errors.New("what was received is not the whole Config; it is asked for anew")
	}
	s.resources, s.whole, s.anew = next, w, false
	s.settle()
	return nil
}

// reapply applies what is held again where that is due.
func (s *Subscriber) reapply() {
	s.mu.Lock()
	due := !s.retryAt.IsZero() && !time.Now().Before(s.retryAt)
	s.mu.Unlock()
	if due {
		s.applying.Lock()
		defer s.applying.Unlock()
		s.settle()
	}
}

// settle applies what is held and acknowledges it; s.applying is held. A Config
// with something unreadable is not applied: the controller sends one without.
func (s *Subscriber) settle() {
	ack := &acknowledgment{Generation: s.whole.Generation, Version: s.whole.Version, Refused: unreadable(s.resources)}
	var retryAt time.Time
	if len(ack.Refused) > 0 {
		ack.Error = "the configuration holds resources that this gateway cannot read; the former one goes on"
	} else {
		applied := s.o.Apply(assemble(s.whole.Generation, s.resources))
		ack.Refused = applied.Refused
		if applied.Error != nil {
			ack.Error = applied.Error.Error()
		}
		if applied.Retry > 0 {
			retryAt = time.Now().Add(applied.Retry)
		}
	}
	ack.Refused = ack.Refused[:min(len(ack.Refused), maxRefused)]
	for i := range ack.Refused {
		r := &ack.Refused[i]
		r.Version, r.Reason = keyedVersion(s.resources, r.Key), cut(r.Reason)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ack, s.retryAt = ack, retryAt
	s.wakeSessions()
	signal(s.stir)
}

// unreadable are the resources that this version of the gateway cannot read.
func unreadable(resources map[resourceID]*resource) (refused []Refusal) {
	for id, r := range resources {
		if r.unreadable != nil {
			refused = append(refused, Refusal{Key: id.Key, Reason: r.unreadable.Error()})
		}
	}
	slices.SortFunc(refused, func(a, b Refusal) int { return strings.Compare(a.Key, b.Key) })
	return refused
}
