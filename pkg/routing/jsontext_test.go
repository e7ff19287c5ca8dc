package routing

import "testing"

func TestRawTextTrim(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		if got := rawText(raw).trim(); string(got) != want {
			t.Errorf("trim of %q = %q, want %q", raw, got, want)
		}
	}
	f("", "")
	f(" ", "")
	f(`\n\t\u0020`, "")
	f("\u3000 a b \u00a0", "a b")
	f(`\n a\tb \r\n\u2003`, `a\tb`)
	f(`a\\n`, `a\\n`) // a backslash and an n
	f(`a\\\n`, `a\\`) // a backslash and a line break
	f(`a\\\\n`, `a\\\\n`)
	f(`a\u000`, `a\u000`)
	f(`a\ud83d\ude00 `, `a\ud83d\ude00`)
	f(`a\ud83d\u0020`, `a\ud83d`)
	f(`a \x `, `a \x`)
	f(`a \ `, `a \ `) // an escape that does not exist, of a space
	f("a\\\u3000", "a\\\u3000")
	f("a\xED\xA0\x80 ", "a\xED\xA0\x80")
}

func TestRawTextEqualFold(t *testing.T) {
	f := func(raw string, want bool) {
		t.Helper()
		if got := rawText(raw).equalFold("user"); got != want {
			t.Errorf("%q is user: %v, want %v", raw, got, want)
		}
	}
	f("user", true)
	f("USER", true)
	f(`\u0075s\u0045r`, true)
	f("", false)
	f("use", false)
	f("users", false)
	f("u\u017fer", false) // the long s folds to s, but roles are ASCII
	f(`user\u0000`, false)
}
