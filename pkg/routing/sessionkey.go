package routing

// SessionKey returns the session key of a request.
func SessionKey(h Headers, f *Facts, o *KeyOptions) Key { return Key{} }

// SessionKeyNeedsBody reports whether the body may decide the session key.
func SessionKeyNeedsBody(h Headers, o *KeyOptions) bool { return true }
