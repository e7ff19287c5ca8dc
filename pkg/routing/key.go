package routing

// KeySource says where a routing key came from. Its String is the metric and
// log label key_source.
type KeySource uint8

// The sources, session keys first. SourceNone marks the absence of a key.
const (
	SourceNone KeySource = iota
	SourceSessionHeader
	SourceConversationHeader
	SourceSessionBody
	SourceSessionClientHeader
	SourceSessionCacheKey
	SourceSessionMessages
	SourceExplicitHeader
	SourceExplicitBody
	SourcePrefixField
	SourceCanonical
	SourceSessionFallback

	// NumKeySources is the number of sources, SourceNone included.
	NumKeySources = iota
)

var keySourceNames = [NumKeySources]string{
	SourceNone:                "none",
	SourceSessionHeader:       "session-header",
	SourceConversationHeader:  "conversation-header",
	SourceSessionBody:         "session-body",
	SourceSessionClientHeader: "session-client-header",
	SourceSessionCacheKey:     "session-cache-key",
	SourceSessionMessages:     "session-messages",
	SourceExplicitHeader:      "explicit-header",
	SourceExplicitBody:        "explicit-body",
	SourcePrefixField:         "prefix-field",
	SourceCanonical:           "canonical",
	SourceSessionFallback:     "session-fallback",
}

// String returns the label value, "none" for an unknown source.
func (s KeySource) String() string {
	if int(s) < len(keySourceNames) {
		return keySourceNames[s]
	}
	return keySourceNames[SourceNone]
}

// Key is a routing key, already hashed: the text it came from is not kept.
// The zero Key is no key.
type Key struct {
	Hash   uint64
	Source KeySource
}

// Valid reports whether k is a key at all.
func (k Key) Valid() bool { return k.Source != SourceNone }

// Malformed tells which explicit cache keys of a request were present but not
// acceptable, by where they stood: at most one count a place and request.
type Malformed struct {
	Header bool // X-Flexinfer-Cache-Key; label SourceExplicitHeader
	Body   bool // cache_key, cacheKey or prompt_cache_key; label SourceExplicitBody
}
