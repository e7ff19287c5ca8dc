package routing

import "bytes"

// pathTree is the candidates of one hostname by path.
//
// Cost of a match: one look-up for exact paths, the hostname's expressions one
// by one, and one look-up a path segment down to the last one that some rule
// names, each segment hashed once; then up again through the prefixes found.
type pathTree struct {
	exact        map[string]*candidateSet
	longestExact int
	expressions  []candidate // by rank
	corsRegexps  []candidate // those of rules with a CORS filter, by rank
	root         pathNode
}

// pathNode is one path prefix of whole segments.
type pathNode struct {
	parent   *pathNode
	children map[string]*pathNode
	set      *candidateSet // nil: no rule has just this prefix
}

// newPathTree takes the candidates of one hostname, sorted by rank.
func newPathTree(candidates []candidate, cors func(*candidate) bool) *pathTree {
	t := &pathTree{exact: map[string]*candidateSet{}}
	exact := map[string][]candidate{}
	prefix := map[string][]candidate{}
	for _, c := range candidates {
		switch c.match.pathType {
		case PathExact:
			exact[c.match.path] = append(exact[c.match.path], c)
			t.longestExact = max(t.longestExact, len(c.match.path))
		case PathRegex:
			t.expressions = append(t.expressions, c)
			if cors(&c) {
				t.corsRegexps = append(t.corsRegexps, c)
			}
		default:
			prefix[c.match.path] = append(prefix[c.match.path], c)
		}
	}
	for path, cs := range exact {
		t.exact[path] = newCandidateSet(cs, cors)
	}
	for path, cs := range prefix {
		t.root.grow([]byte(path)).set = newCandidateSet(cs, cors)
	}
	return t
}

// grow is the node of a prefix ("" or "/a/b"), made where it is missing.
func (n *pathNode) grow(path []byte) *pathNode {
	for len(path) > 0 {
		var segment []byte
		segment, path = nextSegment(path)
		child := n.children[string(segment)]
		if child == nil {
			child = &pathNode{parent: n}
			if n.children == nil {
				n.children = map[string]*pathNode{}
			}
			n.children[string(segment)] = child
		}
		n = child
	}
	return n
}

// nextSegment cuts the first segment, without its slash, off a path that begins
// with a slash.
func nextSegment(path []byte) (segment, rest []byte) {
	path = path[1:]
	if i := bytes.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, nil
}

// deepest is the node of the longest known prefix of path.
func (t *pathTree) deepest(path []byte) *pathNode {
	n := &t.root
	for len(path) > 0 && path[0] == '/' && n.children != nil {
		var segment []byte
		segment, path = nextSegment(path)
		child := n.children[string(segment)]
		if child == nil {
			break
		}
		n = child
	}
	return n
}

func (t *pathTree) exactSet(path []byte) *candidateSet {
	if len(path) > t.longestExact {
		return nil
	}
	return t.exact[string(path)]
}

func (t *pathTree) match(r *Request) *candidate {
	if s := t.exactSet(r.Path); s != nil {
		if c := s.match(r); c != nil {
			return c
		}
	}
	for i := range t.expressions {
		c := &t.expressions[i]
		if c.match.holds(r) && c.match.regex.Match(r.Path) {
			return c
		}
	}
	for n := t.deepest(r.Path); n != nil; n = n.parent {
		if n.set != nil {
			if c := n.set.match(r); c != nil {
				return c
			}
		}
	}
	return nil
}

func (t *pathTree) matchPreflight(r *Request, method []byte) *candidate {
	if s := t.exactSet(r.Path); s != nil {
		if c := s.matchPreflight(r, method); c != nil {
			return c
		}
	}
	for i := range t.corsRegexps {
		c := &t.corsRegexps[i]
		if c.match.holdsForPreflight(r, method) && c.match.regex.Match(r.Path) {
			return c
		}
	}
	for n := t.deepest(r.Path); n != nil; n = n.parent {
		if n.set != nil {
			if c := n.set.matchPreflight(r, method); c != nil {
				return c
			}
		}
	}
	return nil
}
