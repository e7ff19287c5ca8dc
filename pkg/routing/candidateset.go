package routing

import "cmp"

// candidateSet holds the candidates that share one path, and finds the one of
// the lowest rank whose conditions hold.
//
// Where many share a path (one /v1/chat/completions, a rule for each model),
// candidates with an exact condition are kept in a table by the value it asks
// for, so the cost follows the candidates that could win, not all of them.
type candidateSet struct {
	// general are the candidates outside the tables, by rank.
	general []candidate
	more    *valueTables // nil where general are all
}

// valueTables are what a larger candidateSet has besides.
type valueTables struct {
	tables []valueTable
	// cors are the candidates whose rule has a CORS filter, by rank.
	cors []candidate
}

// valueTable keys candidates by the value of one condition they all have, and
// which they no longer hold.
type valueTable struct {
	conditionName
	values index[[]candidate] // by rank
}

// conditionName says what a condition looks at.
type conditionName struct {
	kind conditionKind
	name string
}

const (
	// smallSet is the size up to which a plain walk is quicker than tables.
	smallSet = 4
	// maxTables bounds the look-ups of one match; the names with the most
	// candidates get a table.
	maxTables = 4
	// maxIndexedQueryValue bounds the decoded query value that is looked up.
	maxIndexedQueryValue = 128
)

// newCandidateSet splits candidates, which are sorted by rank.
func newCandidateSet(candidates []candidate) candidateSet {
	s := candidateSet{general: candidates}
	if len(candidates) <= smallSet {
		return s
	}
	s.more = &valueTables{}
	for i := range candidates {
		if candidates[i].cors {
			s.more.cors = append(s.more.cors, candidates[i])
		}
	}
	for len(s.general) > smallSet && len(s.more.tables) < maxTables {
		name, count := commonestCondition(s.general)
		if count <= 1 {
			break
		}
		values := map[string][]candidate{}
		var left []candidate
		for _, c := range s.general {
			if cond := c.indexable(name); cond != nil {
				values[cond.value] = append(values[cond.value], c.without(cond))
			} else {
				left = append(left, c)
			}
		}
		s.more.tables = append(s.more.tables, valueTable{name, newIndex(values)})
		s.general = left
	}
	return s
}

// commonestCondition is the indexable condition that most candidates have.
func commonestCondition(candidates []candidate) (best conditionName, count int) {
	counts := map[conditionName]int{}
	for i := range candidates {
		values := candidates[i].values()
		for j := range values {
			if c := &values[j]; c.canIndex() {
				counts[conditionName{c.kind, c.name}]++
			}
		}
	}
	for name, n := range counts {
		if count == 0 || cmp.Or(cmp.Compare(n, count), cmp.Compare(best.kind, name.kind), cmp.Compare(best.name, name.name)) > 0 {
			best, count = name, n
		}
	}
	return best, count
}

func (c *valueCondition) canIndex() bool {
	return c.regex == nil && (c.kind != onQuery || len(c.value) <= maxIndexedQueryValue)
}

func (c *candidate) indexable(name conditionName) *valueCondition {
	values := c.values()
	for i := range values {
		if cond := &values[i]; cond.kind == name.kind && cond.name == name.name && cond.canIndex() {
			return cond
		}
	}
	return nil
}

// match merges the tables' candidates by rank.
func (s *candidateSet) match(r *Request) *candidate {
	if s.more == nil {
		return firstHolding(s.general, r)
	}
	var lists [maxTables + 1][]candidate
	lists[0] = s.general
	n := 1
	for i := range s.more.tables {
		if l := s.more.tables[i].lookup(r); l != nil {
			lists[n] = *l
			n++
		}
	}
	for {
		best := -1
		for i := range n {
			if len(lists[i]) > 0 && (best < 0 || lists[i][0].rank < lists[best][0].rank) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		c := &lists[best][0]
		if c.holds(r) {
			return c
		}
		lists[best] = lists[best][1:]
	}
}

func firstHolding(candidates []candidate, r *Request) *candidate {
	for i := range candidates {
		if candidates[i].holds(r) {
			return &candidates[i]
		}
	}
	return nil
}

// lookup is the list of the request's value, nil without one.
func (t *valueTable) lookup(r *Request) *[]candidate {
	var value []byte
	switch t.kind {
	case onModel:
		value = r.Model
	case onHeader:
		if r.Headers != nil {
			value = r.Headers.Value(t.name)
		}
	case onQuery:
		raw, ok := queryValue(r.Query, t.name)
		if !ok {
			return nil
		}
		var decoded [maxIndexedQueryValue]byte
		n, fits := unescapeInto(decoded[:], raw)
		if !fits {
			return nil
		}
		return t.values.get(decoded[:n])
	}
	if value == nil {
		return nil
	}
	return t.values.get(value)
}

// matchPreflight is match among the candidates with a CORS filter.
func (s *candidateSet) matchPreflight(r *Request, method []byte) *candidate {
	candidates := s.general
	if s.more != nil {
		candidates = s.more.cors
	}
	for i := range candidates {
		if candidates[i].holdsForPreflight(r, method) {
			return &candidates[i]
		}
	}
	return nil
}
