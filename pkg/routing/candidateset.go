package routing

import (
	"cmp"
	"slices"
)

// candidateSet holds the candidates that share one path, and finds the one of
// the lowest rank whose conditions hold.
//
// Where many share a path (one /v1/chat/completions, a rule for each model),
// candidates with an exact condition are kept in a table by the value it asks
// for, so the cost follows the candidates that could win, not all of them.
type candidateSet struct {
	// general are the candidates outside the tables, by rank.
	general []candidate
	tables  []valueTable
	// cors are the candidates whose rule has a CORS filter, by rank.
	cors []candidate
}

// valueTable keys candidates by the value of one condition they all have.
type valueTable struct {
	kind   conditionKind
	name   string
	values map[string][]candidate // by rank
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
func newCandidateSet(candidates []candidate, cors func(*candidate) bool) *candidateSet {
	s := &candidateSet{}
	for i := range candidates {
		if cors(&candidates[i]) {
			s.cors = append(s.cors, candidates[i])
		}
	}
	rest := candidates
	for len(rest) > smallSet && len(s.tables) < maxTables {
		kind, name, count := commonestCondition(rest)
		if count <= 1 {
			break
		}
		t := valueTable{kind: kind, name: name, values: map[string][]candidate{}}
		var left []candidate
		for _, c := range rest {
			if cond := c.match.indexable(kind, name); cond != nil {
				t.values[cond.value] = append(t.values[cond.value], c)
			} else {
				left = append(left, c)
			}
		}
		s.tables = append(s.tables, t)
		rest = left
	}
	s.general = rest
	return s
}

// commonestCondition is the indexable condition that most candidates have.
func commonestCondition(candidates []candidate) (conditionKind, string, int) {
	type key struct {
		kind conditionKind
		name string
	}
	counts := map[key]int{}
	for _, c := range candidates {
		for _, conds := range [2][]valueCondition{c.match.headers, c.match.query} {
			for i := range conds {
				if conds[i].canIndex() {
					counts[key{conds[i].kind, conds[i].name}]++
				}
			}
		}
	}
	best := slices.SortedFunc(func(yield func(key) bool) {
		for k := range counts {
			if !yield(k) {
				return
			}
		}
	}, func(a, b key) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
	if len(best) == 0 {
		return 0, "", 0
	}
	return best[0].kind, best[0].name, counts[best[0]]
}

func (c *valueCondition) canIndex() bool {
	return c.regex == nil && (c.kind != onQuery || len(c.value) <= maxIndexedQueryValue)
}

func (m *compiledMatch) indexable(kind conditionKind, name string) *valueCondition {
	conds := m.headers
	if kind == onQuery {
		conds = m.query
	}
	for i := range conds {
		if c := &conds[i]; c.kind == kind && c.name == name && c.canIndex() {
			return c
		}
	}
	return nil
}

// match merges the tables' candidates by rank.
func (s *candidateSet) match(r *Request) *candidate {
	if len(s.tables) == 0 {
		return firstHolding(s.general, r)
	}
	var lists [maxTables + 1][]candidate
	lists[0] = s.general
	n := 1
	for i := range s.tables {
		if l := s.tables[i].lookup(r); len(l) > 0 {
			lists[n] = l
			n++
		}
	}
	if n == 1 {
		return firstHolding(s.general, r)
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
		if c.match.holds(r) {
			return c
		}
		lists[best] = lists[best][1:]
	}
}

func firstHolding(candidates []candidate, r *Request) *candidate {
	for i := range candidates {
		if candidates[i].match.holds(r) {
			return &candidates[i]
		}
	}
	return nil
}

func (t *valueTable) lookup(r *Request) []candidate {
	switch t.kind {
	case onModel:
		return t.values[string(r.Model)]
	case onHeader:
		if r.Headers == nil {
			return nil
		}
		return t.values[string(r.Headers.Value(t.name))]
	default:
		raw, ok := queryValue(r.Query, t.name)
		if !ok {
			return nil
		}
		var decoded [maxIndexedQueryValue]byte
		n, fits := unescapeInto(decoded[:], raw)
		if !fits {
			return nil
		}
		return t.values[string(decoded[:n])]
	}
}

// matchPreflight is match among the candidates with a CORS filter.
func (s *candidateSet) matchPreflight(r *Request, method []byte) *candidate {
	for i := range s.cors {
		if s.cors[i].match.holdsForPreflight(r, method) {
			return &s.cors[i]
		}
	}
	return nil
}
