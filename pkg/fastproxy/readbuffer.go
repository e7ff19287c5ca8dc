package fastproxy

import "sync"

// smallBuffer is the size of a connection's read buffer as long as its header
// blocks are ordinary.
const smallBuffer = 8 << 10

// readBuffers holds read buffers of client connections: the small ones. Larger
// ones are rare and left to the garbage collector.
var readBuffers readBufferPool

type readBufferPool struct{ small sync.Pool }

// get returns a buffer of n bytes.
func (p *readBufferPool) get(n int) []byte {
	if n == smallBuffer {
		if b, _ := p.small.Get().(*[smallBuffer]byte); b != nil {
			return b[:]
		}
		return new([smallBuffer]byte)[:]
	}
	return make([]byte, n)
}

// put takes a buffer of get back.
func (p *readBufferPool) put(b []byte) {
	if len(b) == smallBuffer {
		p.small.Put((*[smallBuffer]byte)(b))
	}
}

// outBuffer is where the pieces of an answer are put together for one write.
type outBuffer struct{ b [outBufferSize]byte }

const outBufferSize = 32 << 10

var outBuffers = sync.Pool{New: func() any { return new(outBuffer) }}
