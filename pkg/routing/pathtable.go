package routing

import (
	"slices"
	"strings"
)

// pathTable is the candidates of one hostname by path.
//
// Cost of a match: a hostname with few candidates compares them one by one.
// Otherwise one look-up for exact paths, the hostname's expressions one by one,
// and one look-up for each prefix of whole segments whose length some rule has,
// from the longest.
type pathTable struct {
	// few are all candidates by rank, where they are few; else they are in many.
	few  []candidate
	many *pathIndexes
}

// pathIndexes is the pathTable of many candidates.
type pathIndexes struct {
	exact       index[candidateSet]
	expressions []candidate // by rank
	prefixes    index[candidateSet]
	// lengths has a bit for each length that a prefix has.
	lengths []uint64
}

// fewCandidates is the number up to which comparing is quicker than hashing.
const fewCandidates = 4

// newPathTable takes the candidates of one hostname, sorted by rank.
func newPathTable(candidates []candidate) pathTable {
	if len(candidates) <= fewCandidates {
		return pathTable{few: withPathsTogether(candidates)}
	}
	t := &pathIndexes{}
	exact := map[string][]candidate{}
	prefix := map[string][]candidate{}
	longest := 0
	for _, c := range candidates {
		switch {
		case c.isExpression():
			t.expressions = append(t.expressions, c)
		case c.exact:
			exact[c.path] = append(exact[c.path], c)
		default:
			prefix[c.path] = append(prefix[c.path], c)
			longest = max(longest, len(c.path))
		}
	}
	t.lengths = make([]uint64, longest/64+1)
	for path := range prefix {
		t.lengths[len(path)/64] |= 1 << (len(path) % 64)
	}
	t.exact, t.prefixes = setsByPath(exact), setsByPath(prefix)
	return pathTable{many: t}
}

// withPathsTogether cuts the candidates' paths from one string, so that walking
// over them walks over memory.
func withPathsTogether(candidates []candidate) []candidate {
	candidates = slices.Clone(candidates)
	var all strings.Builder
	for i := range candidates {
		all.WriteString(candidates[i].path)
	}
	rest := all.String()
	for i := range candidates {
		n := len(candidates[i].path)
		candidates[i].path, rest = rest[:n], rest[n:]
	}
	return candidates
}

func setsByPath(byPath map[string][]candidate) index[candidateSet] {
	sets := make(map[string]candidateSet, len(byPath))
	for path, cs := range byPath {
		sets[path] = newCandidateSet(cs)
	}
	return newIndex(sets)
}

// prefixSet is the set of the longest known prefix of path that is at most n
// long, and that prefix's length; nil without one.
func (t *pathIndexes) prefixSet(path []byte, n int) (*candidateSet, int) {
	for ; n >= 0; n = nextPrefix(path, n) {
		if n == 0 && len(path) > 0 && path[0] != '/' {
			break // "*" has no segments
		}
		if n/64 < len(t.lengths) && t.lengths[n/64]&(1<<(n%64)) != 0 {
			if s := t.prefixes.get(path[:n]); s != nil {
				return s, n
			}
		}
	}
	return nil, -1
}

// longestPrefix is the longest prefix of whole segments of path that is not
// longer than all prefixes of the table.
func (t *pathIndexes) longestPrefix(path []byte) int {
	if len(path) <= t.prefixes.longest {
		return len(path)
	}
	// path[:longest] is followed by the slash that ends its last segment, or
	// it ends within a segment.
	return nextPrefix(path, t.prefixes.longest+1)
}

func (t *pathTable) match(r *Request) *candidate {
	for i := range t.few {
		if c := &t.few[i]; c.onPath(r.Path) && c.holds(r) {
			return c
		}
	}
	if t.many != nil {
		return t.many.match(r)
	}
	return nil
}

func (t *pathIndexes) match(r *Request) *candidate {
	if s := t.exact.get(r.Path); s != nil {
		if c := s.match(r); c != nil {
			return c
		}
	}
	for i := range t.expressions {
		if c := &t.expressions[i]; c.holds(r) && c.onPath(r.Path) {
			return c
		}
	}
	if len(t.prefixes.entries) == 0 {
		return nil
	}
	s, n := t.prefixSet(r.Path, t.longestPrefix(r.Path))
	for ; s != nil; s, n = t.prefixSet(r.Path, nextPrefix(r.Path, n)) {
		if c := s.match(r); c != nil {
			return c
		}
	}
	return nil
}

func (t *pathTable) matchPreflight(r *Request, method []byte) *candidate {
	for i := range t.few {
		if c := &t.few[i]; c.holdsForPreflight(r, method) && c.onPath(r.Path) {
			return c
		}
	}
	if t.many != nil {
		return t.many.matchPreflight(r, method)
	}
	return nil
}

func (t *pathIndexes) matchPreflight(r *Request, method []byte) *candidate {
	if s := t.exact.get(r.Path); s != nil {
		if c := s.matchPreflight(r, method); c != nil {
			return c
		}
	}
	for i := range t.expressions {
		if c := &t.expressions[i]; c.holdsForPreflight(r, method) && c.onPath(r.Path) {
			return c
		}
	}
	if len(t.prefixes.entries) == 0 {
		return nil
	}
	s, n := t.prefixSet(r.Path, t.longestPrefix(r.Path))
	for ; s != nil; s, n = t.prefixSet(r.Path, nextPrefix(r.Path, n)) {
		if c := s.matchPreflight(r, method); c != nil {
			return c
		}
	}
	return nil
}
