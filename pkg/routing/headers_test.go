package routing

import "testing"

// fieldLines are header fields as name and value in turn; names are canonical.
type fieldLines []string

func (h fieldLines) Value(name string) []byte {
	for i := 0; i < len(h); i += 2 {
		if h[i] == name {
			return []byte(h[i+1])
		}
	}
	return nil
}

func TestCanonicalHeaderName(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		if got := CanonicalHeaderName(name); got != want {
			t.Errorf("CanonicalHeaderName(%q) = %q, want %q", name, got, want)
		}
	}
	f("X-Session-ID", "X-Session-Id")
	f("x-session-id", "X-Session-Id")
	f("SESSION_ID", "Session_id")
	f("thread-id", "Thread-Id")
	f("-a--b", "-A--B")
	f("", "")
}
