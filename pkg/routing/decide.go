package routing

import "time"

// RouteInput is what Decide reads of a request and of the moment.
type RouteInput struct {
	Headers Headers
	// Facts of the body; of an empty body where it was not read.
	Facts   *Facts
	Options *Options
	// Now is the time in nanoseconds on any clock that all calls share.
	Now int64
	// Rand is uniformly random.
	Rand uint64
	// Exclude are the targets that this request has tried in vain. They are
	// picked again only where nothing else is left.
	Exclude []*Target
}

// Decision is where a request goes and why.
type Decision struct {
	// Group is the label group that Backend was picked from, nil without one.
	Group        *CompiledBackend
	GroupOutcome GroupOutcome
	// Backend is the Model or Service; Target its replica or its Service, nil
	// for OutcomeCold and OutcomeNone.
	Backend *CompiledBackend
	Target  *Target
	Outcome Outcome
	// Key is what the backend's own strategy went by. Its hash is meant for
	// Backend.State.Cardinality; the strategies without keys leave it zero.
	Key Key
	// Malformed are the explicit keys that were passed over on the way.
	Malformed Malformed
}

// Decide makes the whole choice: a group's member by mode and tiers, then the
// member's target by its strategy. What the choice reserves is recorded in
// lease; whatever lease held before is given back first. d is overwritten.
//
// Safe for concurrent use with a lease and Decision each. No allocation.
func (b *CompiledBackend) Decide(in *RouteInput, lease *Lease, d *Decision) {
	lease.Release(in.Now, ResultNeutral)
	*d = Decision{}
	var member ticket
	if b.Kind == BackendGroup {
		d.Group = b
		d.Backend, member = b.pickMember(in, d)
	} else {
		d.Backend = b
	}
	d.Backend.pickTarget(in, member, lease, d)
}

// pickTarget is the choice within a Model or Service.
func (b *CompiledBackend) pickTarget(in *RouteInput, member ticket, lease *Lease, d *Decision) {
	targets := b.Usable()
	if len(targets) == 0 && b.Serverless != nil {
		d.Outcome = OutcomeCold // decided again later, so no key yet
		b.giveBack(member)
		return
	}
	switch b.Strategy {
	case StrategySession:
		d.Key = SessionKey(in.Headers, in.Facts, &in.Options.Keys)
	case StrategyPrefix:
		d.Key = PrefixKey(in.Headers, in.Facts, &in.Options.Keys, b.Identity, &d.Malformed)
	}
	var pod ticket
	p := picker{targets: targets, state: b.State, now: in.Now, rand: in.Rand, exclude: in.Exclude}
	toService, probing := len(targets) == 0, false
	if !toService && b.Strategy == StrategyPrefix && !d.Key.Valid() && b.Service != nil {
		toService, probing = p.service(b.Service)
	}
	switch {
	case toService && b.Service == nil:
		d.Outcome = OutcomeNone
		b.giveBack(member)
		return
	case toService:
		d.Outcome, d.Target = OutcomeServiceFallback, b.Service
	default:
		d.Outcome = OutcomePod
		d.Target, pod, probing = b.pickPod(&p, in.Options.ReservationTTL, d.Key)
	}
	*lease = Lease{
		target: d.Target, backend: b.State, member: member, pod: pod,
		rnd: in.Rand, picked: in.Now, probing: probing,
	}
}

// service says whether a request without a key goes to the Service t: not while
// the Service fails, and not again where this request tried it in vain, since
// there are replicas that can be reached without it.
func (p *picker) service(t *Target) (ok, probing bool) {
	if !p.allowed(t, strict) {
		return false, false
	}
	return p.claim(t, strict)
}

// pickPod picks a replica by the backend's strategy.
func (b *CompiledBackend) pickPod(p *picker, ttl time.Duration, key Key) (t *Target, pod ticket, probing bool) {
	switch {
	case b.Strategy == StrategyLeastLoaded:
		b.State.ledger.expire(p.now)
		t, probing = p.leastLoaded(ttl > 0)
		if ttl > 0 {
			pod = b.State.ledger.enter(&t.load, b.State, p.now+int64(ttl))
		}
	case key.Valid():
		t, probing = p.hashed(b.ring, key.Hash)
	case b.Strategy == StrategySession:
		t, probing = p.random()
	default:
		t, probing = p.roundRobin()
	}
	return t, pod, probing
}

// giveBack drops the reservation of a member that turned out to have no target.
func (b *CompiledBackend) giveBack(member ticket) {
	if member.settle() {
		b.State.load.total.Add(-1)
	}
}
