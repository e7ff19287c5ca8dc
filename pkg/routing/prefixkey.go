package routing

import (
	"bytes"
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// PrefixKey returns the prefix key of a request, by the first source that gives
// one: the header X-Flexinfer-Cache-Key; the body's cache_key, cacheKey or
// prompt_cache_key; the body's prefix; the canonical context (model, system and
// document segments); the session key. Explicit keys that are not acceptable
// are skipped and noted in malformed.
//
// identity is "namespace/name" of the routed Model, "" where none is: then the
// body's model stands in. f may be nil where there is no body.
// Cost: no allocation; each segment is read only as far as it counts.
func PrefixKey(h Headers, f *Facts, o *KeyOptions, identity string, malformed *Malformed) Key {
	v := bytes.TrimSpace(h.Value("X-Flexinfer-Cache-Key"))
	if explicitKey(v, o) {
		return Key{Hash: xxh3.HashSeed(v, tagExplicit), Source: SourceExplicitHeader}
	}
	malformed.Header = len(v) > 0
	if f != nil && f.kind == bodyJSON {
		if k := f.explicitKey(o, malformed); k.Valid() {
			return k
		}
		if t, ok := f.text(fieldPrefix); ok && f.normalizeText(t, o.SystemSegmentMaxLength) {
			return Key{Hash: xxh3.HashSeed(f.norm.dst, tagPrefix), Source: SourcePrefixField}
		}
		if k := f.canonicalKey(o, identity); k.Valid() {
			return k
		}
	}
	k := SessionKey(h, f, o)
	if k.Valid() {
		k.Source = SourceSessionFallback
	}
	return k
}

// PrefixKeyNeedsBody reports whether the body can change what PrefixKey returns
// for these headers.
func PrefixKeyNeedsBody(h Headers, o *KeyOptions) bool {
	return !explicitKey(bytes.TrimSpace(h.Value("X-Flexinfer-Cache-Key")), o)
}

// explicitKey reports whether v may be an explicit cache key: 1 to
// ExplicitKeyMaxLength bytes of A-Z a-z 0-9 . _ : / = -
func explicitKey(v []byte, o *KeyOptions) bool {
	if len(v) == 0 || len(v) > o.ExplicitKeyMaxLength {
		return false
	}
	for _, c := range v {
		if !explicitKeyByte[c] {
			return false
		}
	}
	return true
}

var explicitKeyByte = func() (table [256]bool) {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/=-"
	for i := range len(allowed) {
		table[allowed[i]] = true
	}
	return table
}()

// explicitKey tries the body's explicit keys in order. An empty one is none.
func (f *Facts) explicitKey(o *KeyOptions, malformed *Malformed) Key {
	for _, field := range [...]bodyField{fieldCacheKey, fieldCacheKeyCamel, fieldPromptCacheKey} {
		t, _ := f.text(field)
		if t = t.trim(); len(t) == 0 {
			continue
		}
		// No escape takes more than six bytes for one allowed character.
		if len(t) <= 6*o.ExplicitKeyMaxLength {
			if v := f.unescaped(t); explicitKey(v, o) {
				return Key{Hash: xxh3.HashSeed(v, tagExplicit), Source: SourceExplicitBody}
			}
		}
		malformed.Body = true
	}
	return Key{}
}

// canonicalKey hashes the model identity, the system segments and the document
// segment. Without any segment there is no key.
func (f *Facts) canonicalKey(o *KeyOptions, identity string) Key {
	f.hash.reset()
	if identity != "" {
		f.hash.writeString(identity)
	} else if f.model.end != 0 {
		f.hash.writeText(f.inside(f.model), f.scan.surrogates)
	}
	f.hash.end(tagModel)
	system := f.writeSystem(o)
	document := f.writeSegmentAs(tagDocument, f.normalizeDocument(o.DocumentSegmentMaxLength))
	if !system && !document {
		return Key{}
	}
	return Key{Hash: f.hash.sum(), Source: SourceCanonical}
}

// writeSystem hashes the system segments and returns whether there are any: the
// top-level system and instructions, then the system messages in order; in a
// body without messages, the prompt.
func (f *Facts) writeSystem(o *KeyOptions) bool {
	limit := o.SystemSegmentMaxLength
	found := f.writeSegment(f.normalizeContent(f.fields[fieldSystem], limit))
	found = f.writeSegment(f.normalizeContent(f.fields[fieldInstructions], limit)) || found
	input := f.kindOf(f.fields[fieldInput])
	switch {
	case f.kindOf(f.fields[fieldMessages]) == '[':
		return f.writeSystemMessages(&f.messages, limit) || found
	case input == '[':
		return f.writeSystemMessages(&f.input, limit) || found
	case input == '"':
		return found
	}
	t, tag := f.prompt()
	switch tag {
	case tagText:
		return f.writeSegment(f.normalizeText(t, limit)) || found
	case tagRaw:
		return f.writeSegmentAs(tagRaw, f.normalizeText(t, limit)) || found
	}
	return found
}

func (f *Facts) writeSystemMessages(c *conversation, limit int) bool {
	found := false
	for _, v := range c.system[:c.systemLen] {
		found = f.writeSegment(f.normalizeContent(v, limit)) || found
	}
	if c.hasFurther {
		var sum [8]byte
		binary.LittleEndian.PutUint64(sum[:], c.further.sum())
		f.hash.write(sum[:])
		f.hash.end(tagFurther)
		found = true
	}
	return found
}

// writeSegment hashes what f.norm holds as a system segment, if it holds any
// text, and returns whether it does.
func (f *Facts) writeSegment(present bool) bool { return f.writeSegmentAs(tagSystem, present) }

// writeSegmentAs is writeSegment for a segment of any kind.
func (f *Facts) writeSegmentAs(tag byte, present bool) bool {
	if present {
		f.hash.write(f.norm.dst)
		f.hash.end(tag)
	}
	return present
}

// normalizeDocument puts the document segment into f.norm and returns whether
// there is one.
func (f *Facts) normalizeDocument(limit int) bool {
	for _, field := range [...]bodyField{fieldDocumentContext, fieldDocumentContextCamel, fieldContext} {
		if t, ok := f.text(field); ok && f.normalizeText(t, limit) {
			return true
		}
	}
	v := f.fields[fieldDocuments]
	if f.kindOf(v) != '[' {
		return false
	}
	first, more := f.scan.first(v.start)
	if !more {
		return false
	}
	t, _ := f.part(first)
	return f.normalizeText(t, limit)
}
