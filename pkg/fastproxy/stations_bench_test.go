package fastproxy

import (
	"testing"

	"github.com/valyala/fasthttp"
)

// BenchmarkOutgoingHead is the editing of a usual request's head, the copy that
// makes it repeatable included (copy alone: the second one).
func BenchmarkOutgoingHead(b *testing.B) {
	req := get(b, "/v1/chat/completions", "Accept: */*", "Connection: keep-alive", "Authorization: Bearer x", "Accept-Encoding: gzip",
		"X-Stainless-Lang: python", "X-Stainless-Os: Linux", "User-Agent: x", "Content-Type: application/json")
	original := req.header
	h := &fasthttp.RequestHeader{}
	req.header = h
	b.Run("edit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			original.CopyTo(h)
			stripHopByHop(h)
			forwardedFields(h, req)
		}
	})
	b.Run("copy", func(b *testing.B) {
		for b.Loop() {
			original.CopyTo(h)
		}
	})
}
