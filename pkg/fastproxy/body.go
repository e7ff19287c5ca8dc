package fastproxy

import (
	"errors"
	"io"
	"sync/atomic"

	"flexinfer.ai/gateway/pkg/routing"
)

// wholeBody is a request body that was read whole, in the forms that the
// exchange needs of it.
type wholeBody struct {
	// raw is the body as received; read: it is complete (it may be empty).
	raw  []byte
	read bool
	// plain is raw with its content coding undone, raw itself where it has
	// none, nil where it could not be decoded (coding unknown here).
	plain []byte
	facts routing.Facts
	// parsed: facts hold what plain says.
	parsed bool
	// out is what goes upstream.
	out []byte

	rawBuf, plainBuf, outBuf *[]byte // pooled; nil where none was needed
	charged                  int64   // bytes held of the process's budget
}

// reset forgets the last body, which was released.
func (w *wholeBody) reset() {
	w.raw, w.plain, w.out = nil, nil, nil
	w.read, w.parsed = false, false
	w.facts.Reset()
}

// release gives buffers and budget back.
func (w *wholeBody) release(b *budget) {
	for _, buf := range []**[]byte{&w.rawBuf, &w.plainBuf, &w.outBuf} {
		if *buf != nil {
			bodyBuffers.put(*buf)
			*buf = nil
		}
	}
	b.release(w.charged)
	w.charged = 0
	w.raw, w.plain, w.out = nil, nil, nil
}

// budget bounds the bytes of all bodies that are held whole at one time.
type budget struct {
	limit int64
	used  atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.used.Add(-n)
	return false
}

func (b *budget) release(n int64) {
	if n != 0 {
		b.used.Add(-n)
	}
}

// readBody reads the whole body; nil: it is in x.whole.raw.
func (x *exchange) readBody() *failure {
	w := &x.whole
	if w.read {
		return nil
	}
	limit := x.server.options.Limits.BodyBytes
	n := x.req.body.Len()
	if n > limit {
		x.resp.close = true
		return &failBodyTooLarge
	}
	if w.raw = x.req.body.Whole(); w.raw != nil || n == 0 {
		w.read = true
		return nil
	}
	return x.readBodyInto(n, limit)
}

// readBodyInto reads a body of n bytes (-1: unknown) into a pooled buffer that
// grows with what arrives, so that a declared length alone reserves nothing.
func (x *exchange) readBodyInto(n, limit int64) *failure {
	w := &x.whole
	const firstRead = 64 << 10
	size := int64(firstRead)
	if n >= 0 {
		size = min(n, size)
	}
	if !x.charge(size) {
		return &failBodyMemory
	}
	w.rawBuf = bodyBuffers.get(int(size) + 1)
	buf := (*w.rawBuf)[:0]
	for {
		if len(buf) == cap(buf) || int64(len(buf)) >= size {
			grown := min(2*size, limit+1)
			if n >= 0 {
				grown = min(grown, n)
			}
			if grown > size {
				if !x.charge(grown - size) {
					return &failBodyMemory
				}
				size = grown
				buf = bodyBuffers.grow(w.rawBuf, buf, int(size)+1)
			}
		}
		m, err := x.req.body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+m]
		if int64(len(buf)) > limit {
			x.resp.close = true
			return &failBodyTooLarge
		}
		if err == io.EOF {
			w.raw, w.read = buf, true
			return nil
		}
		if err != nil {
			return x.bodyFailure(err)
		}
	}
}

// charge takes n bytes of the process's budget for this exchange.
func (x *exchange) charge(n int64) bool {
	if !x.server.bodies.take(n) {
		x.resp.close = true
		return false
	}
	x.whole.charged += n
	return true
}

// bodyFailure is the answer to a body that could not be read to its end.
func (x *exchange) bodyFailure(err error) *failure {
	x.resp.close = true
	switch {
	case errors.Is(err, errBodyTimeout):
		return &failBodyTimeout
	case errors.Is(err, errClientGone):
		return &failClientGone
	default:
		return &failBadBody
	}
}

// decodePlain undoes the content coding of the body that was read. How large the
// result is shows only at its end, so that is when it is charged; until then the
// number of decodings at one time bounds what a small body can grow to.
func (x *exchange) decodePlain() *failure {
	w := &x.whole
	if w.plain != nil {
		return nil
	}
	if !isCoded(x.coding) || len(w.raw) == 0 {
		w.plain = w.raw
		return nil
	}
	x.server.decoding <- struct{}{}
	defer func() { <-x.server.decoding }()
	buf := bodyBuffers.get(min(4*len(w.raw), 1<<20))
	plain, err := decodeBody((*buf)[:0], x.coding, w.raw, int(x.server.options.Limits.BodyBytes))
	*buf = plain
	f := decodeFailure(err)
	if f == nil && !x.charge(int64(len(plain))) {
		f = &failBodyMemory
	}
	if f != nil {
		bodyBuffers.put(buf) // the exchange may go on for long with the body as it came
		return f
	}
	w.plainBuf, w.plain = buf, plain
	return nil
}

// decodeFailure is the answer to a body that decodeBody reported err of.
func decodeFailure(err error) *failure {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errUnknownCoding):
		return &failUnknownCoding
	case errors.Is(err, errTooLarge):
		return &failBodyTooLarge
	default:
		return &failBrokenCoding
	}
}

// isCoded says whether a Content-Encoding value names a coding other than identity.
func isCoded(v []byte) bool {
	return len(v) != 0 && !equalFold(v, "identity")
}

// parseBody finds the facts of the body that was read. A body that cannot be
// decoded has none; that is an error where a backend wants it decoded, or where
// only the model it names could have found a rule.
func (x *exchange) parseBody() *failure {
	w := &x.whole
	if w.parsed || !w.read {
		return nil
	}
	w.parsed = true
	if f := x.decodePlain(); f != nil || len(w.plain) == 0 {
		return f
	}
	const form = "multipart/form-data"
	contentType := x.req.header.ContentType()
	if len(contentType) >= len(form) && equalFold(contentType[:len(form)], form) {
		w.facts.ParseMultipart(contentType, w.plain)
	} else {
		w.facts.ParseJSON(w.plain, &x.server.routing.Keys)
	}
	return nil
}

// planBody reads the body whole where the pick, the served model name or
// decoding needs it, and leaves it to be streamed otherwise.
func (x *exchange) planBody() bool {
	w := &x.whole
	b := x.backend
	if x.req.body.Len() == 0 && !w.read {
		w.read = true
		return true
	}
	part := takesPart(x.req.method)
	decode := isCoded(x.coding) && decodes(b)
	facts := part && (b.NeedsBody(&x.fields, x.server.routing) || renames(b))
	if !w.read && (decode || facts || x.mirrorsBody()) {
		if f := x.readBody(); f != nil {
			return x.refuse(f)
		}
	}
	if !w.read {
		w.raw = x.req.body.Whole()
		w.read = w.raw != nil
	}
	if w.read && decode {
		if f := x.decodePlain(); f != nil {
			return x.refuse(f)
		}
	}
	if w.read && facts {
		_ = x.parseBody() // a backend that takes bodies as they come takes this one
	}
	return true
}

// decodes says whether any engine behind b gets bodies decoded.
func decodes(b *routing.CompiledBackend) bool {
	if b.Kind != routing.BackendGroup {
		return b.DecodeRequests
	}
	for _, m := range b.Members {
		if m.DecodeRequests {
			return true
		}
	}
	return false
}

// renames says whether any engine behind b expects another model name.
func renames(b *routing.CompiledBackend) bool {
	if b.Kind != routing.BackendGroup {
		return b.ServedModelName != ""
	}
	for _, m := range b.Members {
		if m.ServedModelName != "" {
			return true
		}
	}
	return false
}

// bodyFor sets w.out, and the field that tells its coding, to what the engine of
// b gets. Tries at different Models may differ in both.
func (x *exchange) bodyFor(b *routing.CompiledBackend) *failure {
	w := &x.whole
	w.out = w.raw
	if !w.read {
		return nil
	}
	coded := isCoded(x.coding)
	if coded && b.DecodeRequests {
		if f := x.decodePlain(); f != nil {
			return f
		}
		w.out, coded = w.plain, false
		removeRequestField(x.req.header, "Content-Encoding")
	} else if coded && requestFields(x.req.header).index("Content-Encoding") < 0 { // a try before this one has removed it
		f := requestFields(x.req.header).add("Content-Encoding")
		f.value = append(f.value, x.coding...)
	}
	if b.ServedModelName == "" || coded || !takesPart(x.req.method) {
		return nil
	}
	_ = x.parseBody() // decoded above
	name, ok := w.facts.Model()
	if !ok || string(name) == b.ServedModelName {
		return nil
	}
	return x.renameModel(b.ServedModelName)
}

// renameModel puts the body with the engine's model name into w.out.
func (x *exchange) renameModel(served string) *failure {
	w := &x.whole
	if w.outBuf != nil {
		bodyBuffers.put(w.outBuf)
		w.outBuf = nil
	} else if !x.charge(int64(len(w.plain))) {
		return &failBodyMemory
	}
	w.outBuf = bodyBuffers.get(len(w.plain) + 2*len(served) + 16)
	*w.outBuf = routing.AppendModelSplice((*w.outBuf)[:0], w.plain, &w.facts, served)
	w.out = *w.outBuf
	return nil
}
