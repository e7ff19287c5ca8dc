package fastproxy

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// TestDecodingIsBounded: however many small bodies that decode to large ones come
// at once, few are decoded at a time, and what does not fit is not kept while
// the request goes on with the body as it came.
func TestDecodingIsBounded(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	_, _ = w.Write(bytes.Repeat([]byte{' '}, 1<<20))
	_ = w.Close()
	held := make(chan struct{})
	engine := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		held <- struct{}{}
		<-held
	}))
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyPrefix, engine)
	cfg.Backends[0].DecodeRequests = false
	p := startProxy(t, cfg, port, func(o *Options) { o.Limits.BodyBytes = 256 << 10 })
	for range cap(p.decoding) {
		p.decoding <- struct{}{}
	}
	answered := make(chan int, 1)
	go func() {
		resp := p.post(newClient(t), "/v1/chat/completions", bomb.String(), "Content-Encoding", "gzip")
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	select {
	case <-held:
		t.Error("a body was decoded beside as many as may be")
	case <-time.After(100 * time.Millisecond):
		<-p.decoding
		<-held
	}
	eventually(t, "the decoding has ended", func() bool { return len(p.decoding) == cap(p.decoding)-1 })
	if n := p.bodies.used.Load(); n > int64(bomb.Len()) {
		t.Errorf("%d bytes are held of a body of %d that goes on as it came", n, bomb.Len())
	}
	held <- struct{}{}
	if s := <-answered; s != http.StatusOK {
		t.Errorf("answered with %d, want 200", s)
	}
}
