package fastproxy

import (
	"math/rand/v2"
	"strings"
	"testing"

	"flexinfer.ai/gateway/pkg/routing"
)

func TestRewriteTarget(t *testing.T) {
	f := func(target, prefix string, kind routing.PathRewriteType, value, want string) {
		t.Helper()
		req := get(t, target)
		if !strings.HasPrefix(string(req.matchPath), prefix) {
			t.Fatalf("%s: canonical path %q does not begin with %q", target, req.matchPath, prefix)
		}
		got := rewriteTarget(nil, req, &routing.PathRewrite{Type: kind, Value: value}, prefix)
		if string(got) != want {
			t.Errorf("%s with prefix %q by %s %q: got %q, want %q", target, prefix, kind, value, got, want)
		}
	}
	const full, prefix = routing.ReplaceFullPath, routing.ReplacePrefixMatch
	// The conformance suite's.
	f("/prefix/one/two", "/prefix/one", prefix, "/one", "/one/two")
	f("/strip-prefix/three", "/strip-prefix", prefix, "/", "/three")
	f("/strip-prefix", "/strip-prefix", prefix, "/", "/")
	f("/full/one/two", "/full/one", full, "/one", "/one")
	f("/full/rewrite-path-and-modify-headers/test", "", full, "/test", "/test")
	// The Gateway API's table.
	f("/foo/bar", "/foo", prefix, "/xyz", "/xyz/bar")
	f("/foo/bar", "/foo", prefix, "/xyz/", "/xyz/bar")
	f("/foo", "/foo", prefix, "/xyz", "/xyz")
	f("/foo/", "/foo", prefix, "/xyz", "/xyz/")
	f("/foo/bar", "/foo", prefix, "", "/bar")
	f("/foo/", "/foo", prefix, "", "/")
	f("/foo", "/foo", prefix, "", "/")
	f("/foo/", "/foo", prefix, "/", "/")
	f("/foo", "/foo", prefix, "/", "/")
	// The root as prefix.
	f("/a/b", "", prefix, "/x", "/x/a/b")
	f("/a/b", "", prefix, "/", "/a/b")
	// The query is kept byte for byte, an empty one too.
	f("/foo/bar?a=%20b&c&&d=%zz", "/foo", prefix, "/xyz", "/xyz/bar?a=%20b&c&&d=%zz")
	f("/foo?", "/foo", prefix, "/xyz", "/xyz?")
	f("/foo/bar?x=/foo", "/foo", full, "/y", "/y?x=/foo")
	// What follows the prefix is kept byte for byte.
	f("/foo/a%2Fb/%7e//c%20", "/foo", prefix, "/xyz", "/xyz/a%2Fb/%7e//c%20")
	f("/%66oo/%7ebar", "/foo", prefix, "/xyz", "/xyz/%7ebar")
	f("/f%6Fo", "/foo", prefix, "/xyz", "/xyz")
	f("/a%2fb/c%2fd", "/a%2Fb", prefix, "/xyz", "/xyz/c%2fd")
	f("/\xc3\xa9/\xc3\xa9", "/%C3%A9", prefix, "/xyz", "/xyz/\xc3\xa9")
	// A path with dot segments cannot climb out of the replacement.
	f("/foo/a/../b", "/foo", prefix, "/xyz", "/xyz/b")
	f("/foo/%2e%2e/foo/b", "/foo", prefix, "/xyz", "/xyz/b")
	f("/x/../foo/b", "/foo", prefix, "/xyz", "/xyz/b")
	// Configured values that could end a path or a line do not.
	f("/foo", "/foo", full, "/a b?c#d", "/a%20b%3Fc%23d")
	f("/foo", "/foo", full, "", "/")
	f("/foo", "/foo", full, "x", "/x")
}

// TestRewriteKeepsTheRest: with random spellings of the same path, the result is
// the replacement and what followed the prefix, as spelled.
func TestRewriteKeepsTheRest(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	spellings := [][]string{{"a", "%61"}, {"b", "%62"}, {"~", "%7e", "%7E"}, {"%2F", "%2f"}, {"%20"}, {"\"", "%22"}}
	segment := func() string {
		var b strings.Builder
		for range 1 + rnd.IntN(4) {
			s := spellings[rnd.IntN(len(spellings))]
			b.WriteString(s[rnd.IntN(len(s))])
		}
		return b.String()
	}
	for range 2000 {
		head, rest := "", ""
		for range 1 + rnd.IntN(3) {
			head += "/" + segment()
		}
		for range rnd.IntN(4) {
			rest += "/" + segment()
		}
		canonical, err := routing.AppendCanonicalPath(nil, []byte(head))
		if err != nil {
			t.Fatal(err)
		}
		req := get(t, head+rest+"?q=1")
		got := rewriteTarget(nil, req, &routing.PathRewrite{Type: routing.ReplacePrefixMatch, Value: "/new"}, string(canonical))
		if want := "/new" + rest + "?q=1"; string(got) != want {
			t.Fatalf("%s%s with prefix %q: got %q, want %q", head, rest, canonical, got, want)
		}
	}
}
