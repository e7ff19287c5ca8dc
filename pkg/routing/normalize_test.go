package routing

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestNormalize(t *testing.T) {
	f := func(limit int, text, want string) {
		t.Helper()
		n := normalizer{limit: limit}
		n.add(rawText(text))
		if got := string(n.text()); got != want {
			t.Errorf("%q cut at %d = %q, want %q", text, limit, got, want)
		}
		if plain := strings.IndexByte(text, '\\') < 0; plain && oracleNormal(text, limit) != want {
			t.Errorf("oracle: %q cut at %d = %q, want %q", text, limit, oracleNormal(text, limit), want)
		}
	}
	f(99, "", "")
	f(99, " \u00a0\u3000\u2028", "")
	f(99, "  You  ARE\u00a0\u2003an\u3000expert ", "you are an expert")
	f(99, `\n\tYou\r\n\u00A0are\u0020\u3000`, "you are")
	f(99, `\"Q\"\\\/`, `"q"\/`)
	f(99, "\x7f\u200b", "\x7f\u200b") // no white space
	f(99, "ÄÖÜ ΣΑΣς ĲĿǄ ЖИЗНЬ ԱՒ", "äöü σασσ ĳŀǆ жизнь աւ")
	f(99, "K ſ Å ẞ", "k s å ß")
	f(99, "𐐀Ꭰ", "𐐨ꭰ")

	f(3, "abcd", "abc")
	f(3, "abc", "abc")
	f(3, "ab cd", "ab ")
	f(3, "ab  ", "ab")
	f(2, "ab cd", "ab")
	f(3, "abü", "ab")
	f(4, "abü", "abü")
	f(4, "ab😀x", "ab")
	f(5, "ab 😀", "ab ")
	f(1, "K", "k") // shorter once folded
	f(2, "ẞ", "ß")
	f(3, "a ü", "a ")
}

// TestNormalizeParts joins texts as content arrays do.
func TestNormalizeParts(t *testing.T) {
	n := normalizer{limit: 7}
	for i, want := range []string{"ab", "ab", "ab cd", "ab cd e"} {
		n.add(rawText([]string{" ab", " ", "CD ", "efg"}[i]))
		if got := n; string(got.text()) != want {
			t.Errorf("after part %d: %q, want %q", i, n.dst, want)
		}
		n.addBreak()
	}
	if n.add(rawText("x")) {
		t.Error("a full text takes more")
	}
}

// TestFoldRune checks over all characters that those which differ in case only
// become one, that the result is in lower case, and that it stays.
func TestFoldRune(t *testing.T) {
	for r := range rune(unicode.MaxRune + 1) {
		if !utf8.ValidRune(r) {
			continue
		}
		folded := foldRune(r)
		if again := foldRune(folded); again != folded {
			t.Fatalf("foldRune(%U) = %U, of which it is %U", r, folded, again)
		}
		if unicode.ToLower(folded) != folded {
			t.Fatalf("foldRune(%U) = %U, which is not in lower case", r, folded)
		}
		if next := unicode.SimpleFold(r); foldRune(next) != folded {
			t.Fatalf("foldRune(%U) = %U, but foldRune(%U) = %U", r, folded, next, foldRune(next))
		}
		if lower := unicode.ToLower(r); foldRune(lower) != folded {
			t.Fatalf("foldRune(%U) = %U, but foldRune(%U) = %U", r, folded, lower, foldRune(lower))
		}
		if unicode.IsSpace(r) && r > lastSpace {
			t.Fatalf("%U is white space", r)
		}
		if unicode.IsSpace(folded) != unicode.IsSpace(r) {
			t.Fatalf("foldRune(%U) = %U changes white space", r, folded)
		}
	}
}

// TestNormalizeStopsEarly cuts a long text as cheaply as a short one: what is
// behind the cut is not even looked at.
func TestNormalizeStopsEarly(t *testing.T) {
	n := normalizer{limit: 3}
	// A cut-off escape, as no valid body has it, would panic.
	n.add(rawText(`abcd\`))
	if string(n.text()) != "abc" {
		t.Errorf("%q", n.dst)
	}
}
