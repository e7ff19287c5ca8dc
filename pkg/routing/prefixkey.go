package routing

// PrefixKey returns the prefix key of a request.
func PrefixKey(h Headers, f *Facts, o *KeyOptions, identity string, malformed *Malformed) Key {
	return Key{}
}

// PrefixKeyNeedsBody reports whether the body may decide the prefix key.
func PrefixKeyNeedsBody(h Headers, o *KeyOptions) bool { return true }
