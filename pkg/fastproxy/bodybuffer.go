package fastproxy

import (
	"math/bits"
	"sync"
)

// bodyBuffers holds buffers for whole bodies by powers of four from 16 KiB to
// 64 MiB; the garbage collector empties it. Safe for concurrent use.
var bodyBuffers bufferPool

const (
	smallestBufferBits = 14
	bufferClasses      = 7
)

type bufferPool struct {
	classes [bufferClasses]sync.Pool
}

// class is the smallest class that holds n bytes; bufferClasses where none does.
func bufferClass(n int) int {
	if n <= 1<<smallestBufferBits {
		return 0
	}
	return (bits.Len(uint(n-1)) - smallestBufferBits + 1) / 2
}

// get returns an empty buffer with room for n bytes.
func (p *bufferPool) get(n int) *[]byte {
	c := bufferClass(n)
	if c >= bufferClasses {
		b := make([]byte, 0, n)
		return &b
	}
	if b, _ := p.classes[c].Get().(*[]byte); b != nil {
		*b = (*b)[:0]
		return b
	}
	b := make([]byte, 0, 1<<(smallestBufferBits+2*c))
	return &b
}

// put takes a buffer back, under the class that its capacity fills.
func (p *bufferPool) put(b *[]byte) {
	c := bufferClass(cap(*b) + 1)
	if c == 0 || c > bufferClasses || cap(*b) < 1<<smallestBufferBits {
		return
	}
	p.classes[c-1].Put(b)
}

// grow replaces *b by a buffer with room for n bytes that begins with content,
// and returns it.
func (p *bufferPool) grow(b *[]byte, content []byte, n int) []byte {
	if cap(content) >= n {
		return content
	}
	next := p.get(n)
	grown := append(*next, content...)
	old := *b
	*b, *next = grown, old
	p.put(next)
	return grown
}
