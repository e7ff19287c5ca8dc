package routing

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// Tags of what is hashed. A key of one value is hashed with its tag as the
// seed; a key of several parts carries a tag and a length behind each part, so
// that it reads unambiguously from its end and no text can imitate another part.
const (
	tagSession  = 'i' // a session identifier, wherever it came from
	tagExplicit = 'k' // an explicit cache key, wherever it came from
	tagPrefix   = 'x' // the body field prefix, normalised

	tagSystem     = 's' // the system text
	tagInstructed = 'n' // the instructions text
	tagRole       = 'r' // a message's role
	tagText       = 't' // a message's or prompt's text
	tagRaw        = 'j' // raw JSON of a message or prompt without text
	tagModel      = 'm' // the model identity
	tagDocument   = 'd' // the document segment
	tagFurther    = 'f' // hash of the system segments beyond the recorded ones
)

// partHasher hashes a sequence of parts with XXH3. Short sequences are hashed
// at once from buf; longer ones go through h, with the same result.
type partHasher struct {
	n       int    // bytes in buf
	part    uint64 // bytes of the open part
	spilled bool   // h holds the bytes before buf
	buf     [1024]byte
	h       xxh3.Hasher
}

func (p *partHasher) reset() {
	p.n, p.part, p.spilled = 0, 0, false
}

// write adds b to the open part.
func (p *partHasher) write(b []byte) {
	p.part += uint64(len(b))
	p.put(b)
}

// writeString adds s to the open part.
func (p *partHasher) writeString(s string) {
	p.part += uint64(len(s))
	for len(s) > 0 {
		if p.n == len(p.buf) {
			p.spill()
		}
		n := copy(p.buf[p.n:], s)
		p.n += n
		s = s[n:]
	}
}

// writeText adds t's text to the open part.
func (p *partHasher) writeText(t rawText, surrogates bool) {
	for len(t) > 0 {
		run := t.run(surrogates)
		p.write(t[:run])
		if t = t[run:]; len(t) == 0 {
			return
		}
		if p.n > len(p.buf)-utf8.UTFMax {
			p.spill()
		}
		r, size := t.nextChar()
		wrote := utf8.EncodeRune(p.buf[p.n:], r)
		p.n += wrote
		p.part += uint64(wrote)
		t = t[size:]
	}
}

// end closes the open part, empty or not.
func (p *partHasher) end(tag byte) {
	if p.n > len(p.buf)-9 {
		p.spill()
	}
	binary.LittleEndian.PutUint64(p.buf[p.n:], p.part)
	p.buf[p.n+8] = tag
	p.n += 9
	p.part = 0
}

func (p *partHasher) sum() uint64 {
	if !p.spilled {
		return xxh3.Hash(p.buf[:p.n])
	}
	p.spill()
	return p.h.Sum64()
}

func (p *partHasher) put(b []byte) {
	if len(b) > len(p.buf)-p.n {
		p.spill()
		if len(b) >= len(p.buf) {
			_, _ = p.h.Write(b)
			return
		}
	}
	p.n += copy(p.buf[p.n:], b)
}

func (p *partHasher) spill() {
	if !p.spilled {
		p.spilled = true
		p.h.Reset()
	}
	_, _ = p.h.Write(p.buf[:p.n])
	p.n = 0
}
