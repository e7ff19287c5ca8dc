package enginesim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func split(text string) []string {
	var tokens []string
	for len(text) > 0 {
		n := tokenLength(text)
		tokens = append(tokens, text[:n])
		text = text[n:]
	}
	return tokens
}

func TestTokenLength(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, split(text)); diff != "" {
			t.Errorf("tokens of %q (-want +got):\n%s", text, diff)
		}
	}
	f("")
	f(" ", " ")
	f("hello", "hello")
	f("hello world.", "hello", " world", ".")
	f("internationalisation", "intern", "ationa", "lisati", "on")
	f("a   b", "a", "  ", " b")
	f("a ", "a", " ")
	f("........", "......", "..")
	f("\n\n  x", "\n\n", " ", " x")
	f("{\"a\":1}", "{", "\"", "a", "\"", ":", "1", "}")
	f("日本", "日本")
}

// An answer must be cut into the tokens it was generated as, or conversations
// would miss their own history in the cache.
func TestGeneratedTextKeepsItsTokens(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range uint64(50) {
		generator := newTextGenerator(seed + i)
		var tokens []string
		for range 200 {
			tokens = append(tokens, generator.next())
		}
		if diff := cmp.Diff(tokens, split(strings.Join(tokens, ""))); diff != "" {
			t.Fatalf("(-generated +cut)\n%s", diff)
		}
		if text := strings.Join(tokens, ""); strings.Contains(text, "..") || !strings.Contains(text, ". ") {
			t.Fatalf("no sentences in %q", text)
		}
	}
}

func TestTextDependsOnSeedOnly(t *testing.T) {
	text := func(seed uint64) string {
		g, out := newTextGenerator(seed), ""
		for range 30 {
			out += g.next()
		}
		return out
	}
	if text(1) != text(1) {
		t.Error("the same seed gave two texts")
	}
	if text(1) == text(2) {
		t.Error("two seeds gave the same text")
	}
}

func TestTokenChainSharesExactlyTheCommonPrefix(t *testing.T) {
	const blockSize = 4
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	chainOf := func(tokens []string) *tokenChain {
		c := newTokenChain(blockSize)
		for _, token := range tokens {
			c.appendToken(token)
		}
		return c
	}
	for range 300 {
		tokens := make([]string, 1+random.IntN(40))
		for i := range tokens {
			tokens[i] = string(rune('a' + random.IntN(3)))
		}
		other := slices.Clone(tokens)
		at := random.IntN(len(tokens))
		other[at] += "x"
		a, b := chainOf(tokens), chainOf(other)
		if want := len(tokens) / blockSize; len(a.hashes) != want {
			t.Fatalf("%d tokens made %d blocks, want %d", len(tokens), len(a.hashes), want)
		}
		for i := range a.hashes {
			if same := a.hashes[i] == b.hashes[i]; same != (i < at/blockSize) {
				t.Fatalf("token %d of %v differs; block %d equal: %v", at, tokens, i, same)
			}
		}
		if a.digest() == b.digest() {
			t.Fatalf("digests of %v and %v are equal", tokens, other)
		}
	}
}

func TestTokenChainTellsTokenBordersApart(t *testing.T) {
	a, b := newTokenChain(2), newTokenChain(2)
	a.appendToken("ab")
	a.appendToken("c")
	b.appendToken("a")
	b.appendToken("bc")
	if a.hashes[0] == b.hashes[0] {
		t.Error("[ab c] and [a bc] have the same block hash")
	}
	c := a.clone()
	c.appendText("more text than one block holds")
	if len(a.hashes) != 1 || len(c.hashes) < 2 {
		t.Errorf("clone shares with its origin: %d and %d blocks", len(a.hashes), len(c.hashes))
	}
}
