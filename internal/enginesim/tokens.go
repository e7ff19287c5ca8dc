package enginesim

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// maxTokenBytes is the longest piece of text that counts as one token. With the
// leading space of a word on top, English comes out near four bytes a token.
const maxTokenBytes = 6

// imageTokens is what an image, a sound or any other part without text counts.
const imageTokens = 64

// tokenChain turns tokens into the chained hashes of full blocks: each hash
// covers its block and, through the seed, every block before it, so two prompts
// share block i exactly when they share all tokens up to its end.
// Memory: 8 bytes a block; the text itself is not kept.
type tokenChain struct {
	blockSize int
	tokens    int
	hashes    []uint64
	parent    uint64
	block     []byte // tokens since the last full block, each with its length in front
	inBlock   int
}

func newTokenChain(blockSize int) *tokenChain { return &tokenChain{blockSize: blockSize} }

// clone copies the chain, so that several sequences can continue one prompt.
func (c *tokenChain) clone() *tokenChain {
	copied := *c
	copied.hashes = append([]uint64(nil), c.hashes...)
	copied.block = append([]byte(nil), c.block...)
	return &copied
}

// appendToken adds one token, whatever its text.
func (c *tokenChain) appendToken(token string) {
	c.block = binary.AppendUvarint(c.block, uint64(len(token)))
	c.block = append(c.block, token...)
	c.tokens++
	c.inBlock++
	if c.inBlock == c.blockSize {
		c.parent = xxh3.HashSeed(c.block, c.parent)
		c.hashes = append(c.hashes, c.parent)
		c.block, c.inBlock = c.block[:0], 0
	}
}

// appendMarker adds a control token of the chat template. The NUL in front keeps
// text from imitating it: appendText never yields a token that holds both a NUL
// and a letter.
func (c *tokenChain) appendMarker(name string) { c.appendToken("\x00" + name) }

// appendText adds the tokens of text.
func (c *tokenChain) appendText(text string) {
	for len(text) > 0 {
		n := tokenLength(text)
		c.appendToken(text[:n])
		text = text[n:]
	}
}

// appendOpaque adds what stands for content that is not text.
func (c *tokenChain) appendOpaque(raw []byte) {
	var token [16]byte
	binary.LittleEndian.PutUint64(token[8:], xxh3.Hash(raw))
	for i := range imageTokens {
		binary.LittleEndian.PutUint64(token[:8], uint64(i))
		c.appendToken(string(token[:]))
	}
}

// digest covers every token so far, those of an unfinished block included.
func (c *tokenChain) digest() uint64 { return xxh3.HashSeed(c.block, c.parent^uint64(c.tokens)) }

// tokenLength returns the length of the first token of a text that is not empty:
// a word's beginning of at most maxTokenBytes with one space in front if there
// is one, or a run of one other byte. Cutting needs to be repeatable only, so it
// may fall inside a rune.
func tokenLength(text string) int {
	start := 0
	if text[0] == ' ' && len(text) > 1 && isWordByte(text[1]) {
		start = 1
	}
	if isWordByte(text[start]) {
		n := start + 1
		for n < len(text) && n-start < maxTokenBytes && isWordByte(text[n]) {
			n++
		}
		return n
	}
	n := 1
	for n < len(text) && n < maxTokenBytes && text[n] == text[0] {
		if text[n] == ' ' && n+1 < len(text) && isWordByte(text[n+1]) {
			break
		}
		n++
	}
	return n
}

func isWordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b >= 0x80
}
