package routing

import "testing"

// TestKeySourceNames pins the label values, which dashboards read.
func TestKeySourceNames(t *testing.T) {
	want := []string{
		"none", "session-header", "conversation-header", "session-body", "session-client-header",
		"session-cache-key", "session-messages", "explicit-header", "explicit-body", "prefix-field",
		"canonical", "session-fallback",
	}
	if NumKeySources != len(want) {
		t.Fatalf("%d sources, want %d", NumKeySources, len(want))
	}
	for s, name := range want {
		if got := KeySource(s).String(); got != name {
			t.Errorf("source %d is %q, want %q", s, got, name)
		}
	}
	if got := KeySource(NumKeySources).String(); got != "none" {
		t.Errorf("an unknown source is %q", got)
	}
}

// keysOf parses body and returns both keys, as for the Model prod/llama-3.
func keysOf(t *testing.T, h fieldLines, body string) (session, prefix Key) {
	t.Helper()
	o := DefaultKeyOptions()
	var f Facts
	var m Malformed
	f.ParseJSON([]byte(body), &o)
	return SessionKey(h, &f, &o), PrefixKey(h, &f, &o, "prod/llama-3", &m)
}

// TestKeysArePinned holds that keys stay what they are: replicas of two
// versions serve side by side during an update and must agree.
func TestKeysArePinned(t *testing.T) {
	f := func(h fieldLines, body string, wantSession, wantPrefix uint64) {
		t.Helper()
		session, prefix := keysOf(t, h, body)
		if session.Hash != wantSession || prefix.Hash != wantPrefix {
			t.Errorf("keys of %q, %s: %#x, %#x, want %#x, %#x", h, body, session.Hash, prefix.Hash, wantSession, wantPrefix)
		}
	}
	f(fieldLines{"X-Session-Id", "user-123-conversation-456"}, ``, 0x3be64cc257134c7d, 0x3be64cc257134c7d)
	f(fieldLines{"X-Flexinfer-Cache-Key", "tenant-a/doc-42"}, ``, 0, 0x69102720eb374019)
	f(nil, `{"cache_key":"tenant-a/doc-42","messages":[{"role":"user","content":"Summarize this document"}]}`, 0x4b6e1a1ae9d5c1f5, 0x69102720eb374019)
	f(nil, `{"messages":[{"role":"system","content":"You are an expert Python developer..."},{"role":"user","content":"How do I use decorators?"}]}`, 0x9033baaa9801828e, 0xc99cde6b4d7ccc0c)
	f(nil, `{"prompt":"Once upon","prefix":" A  B "}`, 0x5c9ff7772279c920, 0x282516eabdb4e320)
	f(nil, `{"instructions":"Be brief","input":"Hi","documents":[{"text":"Doc"}]}`, 0x7fac2cc543a7218a, 0xc92a7bf3f442ffdf)
}
