package routing

// Members are chosen among those that can take the request. Ready says that a
// member has ready endpoints and that nobody's phase says otherwise; like the pods
// of one Model,
// members whose endpoints are all passed over, or all tried by this request,
// are left out while another Ready member can take it.

// MemberReady says whether b, as a member of a group, is Ready.
func (b *CompiledBackend) MemberReady() bool {
	return len(b.Ready) > 0 && b.Phase != PhaseFailed && b.Phase != PhaseNotReady
}

// able says whether a Ready member has an endpoint that how allows.
func (b *CompiledBackend) able(in *RouteInput, how leniency) bool {
	if !b.MemberReady() {
		return false
	}
	if how == anyTarget {
		return true
	}
	p := picker{now: in.Now, exclude: in.Exclude}
	for _, t := range b.Ready {
		if p.allowed(t, how) {
			return true
		}
	}
	return false
}

// memberPick is one request's choice among the members of a group.
type memberPick struct {
	group *CompiledBackend
	in    *RouteInput
	how   leniency
	tier  int
}

func (p *memberPick) allowed(m *CompiledBackend) bool {
	return m.Priority == p.tier && m.able(p.in, p.how)
}

// narrow finds the strictest leniency under which a member can take the request
// and the highest tier among those members. total counts them, left the ones of
// that tier; only is the first of these, nil where none is Ready.
func (p *memberPick) narrow() (total, left int, only *CompiledBackend) {
	for p.how = strict; p.how < numLeniencies; p.how++ {
		for _, m := range p.group.Members {
			if !m.able(p.in, p.how) {
				continue
			}
			total++
			switch {
			case only == nil || m.Priority > p.tier:
				only, p.tier, left = m, m.Priority, 1
			case m.Priority == p.tier:
				left++
			}
		}
		if total > 0 {
			break
		}
	}
	return total, left, only
}

// pickMember is the choice among a group's members. The ticket is the
// reservation of a least-loaded pick on the member.
func (b *CompiledBackend) pickMember(in *RouteInput, d *Decision) (*CompiledBackend, ticket) {
	p := memberPick{group: b, in: in}
	total, left, only := p.narrow()
	switch {
	case total == 0:
		d.GroupOutcome = GroupFallbackNoReady
		return b.ColdStartTarget(), ticket{}
	case total == 1:
		d.GroupOutcome = GroupFallbackSingle
		return only, ticket{}
	case left == 1:
		d.GroupOutcome = GroupPriorityPick
		return only, ticket{}
	}
	mode := in.Options.LabelGroupMode
	switch mode {
	case ModeRoundRobin:
		d.GroupOutcome = GroupDefaultRR
		return p.roundRobin(only), ticket{}
	case ModeLeastLoaded:
		d.GroupOutcome = GroupLeastLoaded
		return p.leastLoaded(only)
	}
	key, outcome := b.memberKey(in, mode, d)
	d.GroupOutcome = outcome
	if key.Valid() {
		return p.hashed(key.Hash, only), ticket{}
	}
	return p.roundRobin(only), ticket{}
}

// memberKey is the key that a keyed mode goes by. A prefix key that was only
// derived from the session counts for the modes that name the session.
func (b *CompiledBackend) memberKey(in *RouteInput, mode Mode, d *Decision) (Key, GroupOutcome) {
	if mode.usesPrefix() {
		key := PrefixKey(in.Headers, in.Facts, &in.Options.Keys, b.Identity, &d.Malformed)
		if key.Valid() && key.Source != SourceSessionFallback {
			return key, GroupHashedPrefix
		}
	}
	if mode.usesSession() {
		if key := SessionKey(in.Headers, in.Facts, &in.Options.Keys); key.Valid() {
			return key, GroupHashedSession
		}
	}
	return Key{}, GroupFallbackNoKey
}

// ColdStartTarget is the member that requests for the group b wait for while
// none is Ready: the first by name of the highest tier.
func (b *CompiledBackend) ColdStartTarget() *CompiledBackend {
	first := b.Members[0]
	for _, m := range b.Members {
		if m.Priority > first.Priority {
			first = m
		}
	}
	return first
}

// roundRobin picks the first allowed member at or after the group's cursor;
// otherwise is for the case that the last one just became passed over.
func (p *memberPick) roundRobin(otherwise *CompiledBackend) *CompiledBackend {
	members := p.group.Members
	cursor := &p.group.State.cursor
	for range maxLostRaces {
		from := cursor.Load()
		at := -1
		for k := range members {
			if i := (int(from%uint32(len(members))) + k) % len(members); p.allowed(members[i]) {
				at = i
				break
			}
		}
		if at < 0 {
			return otherwise
		}
		if cursor.CompareAndSwap(from, uint32(at+1)) {
			return members[at]
		}
	}
	return otherwise
}

// hashed picks the owner of h on the ring of all members, or the next allowed
// one clockwise: a readiness change moves only that member's keys.
func (p *memberPick) hashed(h uint64, otherwise *CompiledBackend) *CompiledBackend {
	ring := p.group.memberRing
	at := ring.first(h)
	for range ring.owners {
		if m := p.group.Members[ring.owners[at]]; p.allowed(m) {
			return m
		}
		at = ring.after(at)
	}
	return otherwise
}

// leastLoaded picks the allowed member with the fewest active exchanges and
// reservations, ties round-robin, and reserves it in the same step.
func (p *memberPick) leastLoaded(otherwise *CompiledBackend) (*CompiledBackend, ticket) {
	state := p.group.State
	ttl := int64(p.in.Options.ReservationTTL)
	state.ledger.expire(p.in.Now)
	for range maxLostRaces {
		cursor := state.cursor.Load()
		m, at, lowest := p.lowest(int(cursor % uint32(len(p.group.Members))))
		if m == nil {
			break
		}
		if ttl <= 0 {
			if state.cursor.CompareAndSwap(cursor, uint32(at+1)) {
				return m, ticket{}
			}
			continue
		}
		if m.State.load.total.CompareAndSwap(lowest, lowest+1) {
			state.cursor.Store(uint32(at + 1))
			return m, state.ledger.enter(&m.State.load, m.State, p.in.Now+ttl)
		}
	}
	if ttl <= 0 {
		return otherwise, ticket{}
	}
	otherwise.State.load.total.Add(1)
	return otherwise, state.ledger.enter(&otherwise.State.load, otherwise.State, p.in.Now+ttl)
}

func (p *memberPick) lowest(start int) (m *CompiledBackend, at int, lowest int64) {
	members := p.group.Members
	for k := range members {
		i := (start + k) % len(members)
		if n := members[i].State.load.total.Load(); (m == nil || n < lowest) && p.allowed(members[i]) {
			m, at, lowest = members[i], i, n
		}
	}
	return m, at, lowest
}
