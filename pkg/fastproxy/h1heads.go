package fastproxy

import (
	"sync"

	"github.com/valyala/fasthttp"
)

// h1heads is the memory for both heads of one exchange of an HTTP/1.x client.
// Between requests a connection has none.
type h1heads struct {
	request  fasthttp.RequestHeader
	response fasthttp.ResponseHeader
	large    bool // not to be kept
}

// ordinaryHead is up to which size a request's head is held in pooled memory.
const ordinaryHead = 6 << 10

var h1headsPool = sync.Pool{New: func() any { return new(h1heads) }}

// takeHeads returns empty heads for a request whose head has n bytes.
func takeHeads(n int) *h1heads {
	if n > ordinaryHead {
		return &h1heads{large: true}
	}
	return h1headsPool.Get().(*h1heads)
}

// release gives the memory back; h may be nil.
func (h *h1heads) release() {
	if h == nil || h.large {
		return
	}
	h.request.Reset()
	h.response.Reset()
	h1headsPool.Put(h)
}
