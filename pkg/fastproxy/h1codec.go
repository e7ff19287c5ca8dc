package fastproxy

import (
	"bufio"
	"io"
	"sync"

	"github.com/valyala/fasthttp"
)

// h1codec is what one exchange of an HTTP/1.x client needs of fasthttp: the
// request's head, which it reads, and the answer's. Between requests a
// connection has none.
type h1codec struct {
	request  fasthttp.RequestHeader
	response fasthttp.ResponseHeader
	reader   *bufio.Reader // reads source
	source   headSource
}

// ordinaryHead is up to which size header blocks are read in pooled memory.
const ordinaryHead = 6 << 10

var h1codecs sync.Pool

// readCodec returns a codec that has read head, which the gate let through.
func readCodec(g *gate, head []byte) (*h1codec, *refusal) {
	c, _ := h1codecs.Get().(*h1codec)
	if c == nil || len(head) > ordinaryHead {
		c = &h1codec{}
		c.reader = bufio.NewReaderSize(&c.source, max(len(head), ordinaryHead))
		c.reset()
	}
	c.source = headSource{g, head}
	err := c.request.Read(c.reader)
	c.source = headSource{}
	if err != nil {
		c.release()
		return nil, &refuseCodec
	}
	if g.agents > 1 {
		readAgents(&c.request, head)
	}
	return c, nil
}

// reset forgets the exchange.
func (c *h1codec) reset() {
	c.request.Reset()
	c.response.Reset()
	c.reader.Reset(&c.source)
}

// release gives the codec back.
func (c *h1codec) release() {
	if c.reader.Size() > ordinaryHead {
		return
	}
	c.reset()
	h1codecs.Put(c)
}

// headSource yields one header block as the gate composes it.
type headSource struct {
	gate *gate
	head []byte
}

// Read implements io.Reader; p has room for the whole block.
func (s *headSource) Read(p []byte) (int, error) {
	if s.gate == nil {
		return 0, io.EOF
	}
	n := s.gate.compose(p, s.head)
	s.gate = nil
	return n, nil
}
