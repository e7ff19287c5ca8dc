package e2e

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"flexinfer.ai/gateway/internal/enginesim"
)

// bodyCase is a body that a client sends, and what must become of it.
type bodyCase struct {
	name     string
	body     []byte
	encoding string // Content-Encoding of the request
	header   map[string]string
	// source is the key_source that the decision counts.
	source string
	// want is what the engine receives; nil: body, byte for byte.
	want []byte
	// wantEncoding is the Content-Encoding that the engine receives.
	wantEncoding string
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// TestBodies sends each body to Models whose strategy is prefix and compares what
// arrives at the engine's /echo, and which key the gateway found.
func TestBodies(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 3, enginesim.Options{OutputTokens: 4})
	g := serve(t, map[string]string{"all.yaml": gatewayYAML +
		modelYAML("chat", strategy("prefix"), "serviceName: engines") +
		modelYAML("renamed", strategy("prefix"), "serviceName: engines", "servedModelName: Qwen/Qwen3-8B") +
		modelYAML("raw", strategy("prefix"), "serviceName: engines", "requestDecoding: Passthrough") +
		serviceYAML(t, "engines", ready(engines)...) + byModelNameYAML("chat", "renamed") +
		modelRouteYAML("any", "any", "chat") + modelRouteYAML("raw", "raw", "raw")})

	for _, c := range append(plainBodies(t), encodedBodies(t)...) {
		t.Run(c.name, func(t *testing.T) { g.checkBody(t, c) })
	}
	for _, c := range refusedBodies(t) {
		t.Run(c.name, func(t *testing.T) { g.checkRefusal(t, c) })
	}
}

func (g *gateway) checkBody(t *testing.T, c bodyCase) {
	t.Helper()
	const decisions = "flexinfer_proxy_routing_decisions_total"
	before := total(g.scrape(), decisions, "key_source", c.source)
	header := map[string]string{}
	for k, v := range c.header {
		header[k] = v
	}
	host := header["Host"]
	delete(header, "Host")
	if c.encoding != "" {
		header["Content-Encoding"] = c.encoding
	}
	a := g.do(request{path: "/echo/v1/chat/completions", host: host, body: c.body, header: header})
	if a.status != http.StatusOK {
		t.Fatalf("status %d: %.300s", a.status, a.body)
	}
	var echo enginesim.Echo
	if err := json.Unmarshal(a.body, &echo); err != nil {
		t.Fatalf("%v: %.300s", err, a.body)
	}
	want := c.want
	if want == nil {
		want = c.body
	}
	if echo.BodySHA256 != sum(want) || echo.BodyLength != int64(len(want)) {
		t.Errorf("the engine got %d bytes, want %d, or they differ", echo.BodyLength, len(want))
	}
	encoding, length := "", ""
	for _, h := range echo.Headers {
		switch strings.ToLower(h.Name) {
		case "content-encoding":
			encoding = h.Value
		case "content-length":
			length = h.Value
		}
	}
	if encoding != c.wantEncoding {
		t.Errorf("the engine got Content-Encoding %q, want %q", encoding, c.wantEncoding)
	}
	if length != fmt.Sprint(len(want)) {
		t.Errorf("the engine got Content-Length %q, want %d", length, len(want))
	}
	if after := total(g.scrape(), decisions, "key_source", c.source); after != before+1 {
		t.Errorf("key_source %q counted %v more decisions, want 1", c.source, after-before)
	}
}

const systemMessage = `{"role":"system","content":"You answer using provided context only."}`

// plainBodies are not compressed.
func plainBodies(t *testing.T) []bodyCase {
	t.Helper()
	text := func(n int) string { return strings.Repeat("All work and no play. ", n/22) }
	seed := rand.Uint64()
	t.Logf("image seed %d", seed)
	noise := make([]byte, 900<<10)
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)})
	if _, err := random.Read(noise); err != nil {
		t.Fatal(err)
	}
	image := "data:image/png;base64," + base64.StdEncoding.EncodeToString(noise)
	chat := func(model, rest string) []byte {
		return fmt.Appendf(nil, `{"model":%q,"messages":[%s,{"role":"user","content":"Hello"}]%s}`, model, systemMessage, rest)
	}
	long := func(n int) []byte {
		return fmt.Appendf(nil, `{"model":"chat","messages":[%s,{"role":"user","content":%q}]}`, systemMessage, text(n))
	}
	tools := `"tools":[` + strings.Repeat(`{"type":"function","function":{"name":"f","description":"says \"model\": \"x\", and } too"}},`, 30_000) + `{}]`
	anyHost := map[string]string{"Host": "any"}
	return []bodyCase{
		{name: "30 MB", body: long(30 << 20), source: "canonical"},
		{name: "2 MB chat", body: long(2 << 20), source: "canonical"},
		{name: "200 KB chat", body: long(200 << 10), source: "canonical"},
		{name: "model behind 3 MB of tools", source: "canonical",
			body: fmt.Appendf(nil, `{%s,"messages":[%s],"model":"chat"}`, tools, systemMessage)},
		{name: "image parts", source: "canonical",
			body: fmt.Appendf(nil, `{"model":"chat","messages":[%s,{"role":"user","content":[{"type":"text","text":"See"},{"type":"image_url","image_url":{"url":%q}}]}]}`, systemMessage, image)},
		{name: "image alone", source: "session-fallback",
			body: fmt.Appendf(nil, `{"model":"chat","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":%q}}]}]}`, image)},
		{name: "content arrays and nulls", source: "canonical",
			body: []byte(`{"model":"chat","messages":[{"role":"system","content":[{"type":"text","text":"a"},null,{"value":"b"}]},{"role":"assistant","content":null},{"role":"user","content":"x"}]}`)},
		{name: "content null alone", source: "none",
			body: []byte(`{"model":"chat","messages":[]}`)},
		{name: "duplicate model, the last counts", source: "canonical", body: []byte(`{"model":"no-such","messages":[` + systemMessage + `],"model":"chat"}`)},
		{name: "escapes in a key", source: "explicit-body", body: []byte(`{"m\u006fdel":"chat","cache\u005fkey":"tenant-a\/doc-1","messages":[]}`)},
		{name: "escapes in the model", source: "canonical", body: []byte(`{"model":"ch\u0061t","messages":[` + systemMessage + `]}`)},
		{name: "lone surrogates", source: "canonical", body: []byte(`{"model":"chat","messages":[{"role":"system","content":"a \ud800 b \udc00"}]}`)},
		{name: "byte-order mark", source: "canonical", body: append([]byte("\xef\xbb\xbf"), chat("chat", "")...)},
		{name: "NaN", source: "canonical", body: chat("chat", `,"temperature":NaN,"top_p":-Infinity`)},
		{name: "deep nesting", source: "canonical", body: chat("chat", `,"x":`+strings.Repeat(`[{"a":`, 4000)+"1"+strings.Repeat("}]", 4000))},
		{name: "nesting beyond reason", source: "none", header: anyHost, body: chat("chat", `,"x":`+strings.Repeat(`[`, 100_000)+strings.Repeat("]", 100_000))},
		{name: "invalid JSON", source: "none", header: anyHost, body: []byte(`{"model":"chat","messages":[` + systemMessage)},
		{name: "another JSON kind", source: "none", header: anyHost, body: []byte(`["model","chat"]`)},
		{name: "no JSON", source: "none", header: anyHost, body: []byte("model=chat")},
		{name: "header key", source: "explicit-header", header: map[string]string{"X-Flexinfer-Cache-Key": "k"}, body: chat("chat", "")},
		{name: "malformed header key", source: "canonical", header: map[string]string{"X-Flexinfer-Cache-Key": "bad key"}, body: chat("chat", "")},
		{name: "served model name", source: "canonical", body: chat("renamed", `, "n" : 1.0e0`), want: chat("Qwen/Qwen3-8B", `, "n" : 1.0e0`)},
	}
}

func encode(t *testing.T, open func(io.Writer) (io.WriteCloser, error), plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := open(&b)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipWriter(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }

// encodedBodies are compressed: the engine gets them decoded, or as they came.
func encodedBodies(t *testing.T) []bodyCase {
	t.Helper()
	plain := fmt.Appendf(nil, `{"messages":[%s,{"role":"user","content":%q}],"model":"chat"}`,
		systemMessage, strings.Repeat("Explain this again. ", 10_000))
	gz := encode(t, gzipWriter, plain)
	cases := []bodyCase{
		{name: "gzip", encoding: "gzip", body: gz},
		{name: "x-gzip", encoding: "x-gzip", body: gz},
		{name: "zstd", encoding: "zstd", body: encode(t, func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }, plain)},
		{name: "br", encoding: "br", body: encode(t, func(w io.Writer) (io.WriteCloser, error) { return brotli.NewWriter(w), nil }, plain)},
		{name: "deflate", encoding: "deflate", body: encode(t, func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil }, plain)},
	}
	for i := range cases {
		cases[i].want, cases[i].source = plain, "canonical"
	}
	renamed := bytes.Replace(plain, []byte(`"model":"chat"`), []byte(`"model":"renamed"`), 1)
	return append(cases,
		bodyCase{name: "gzip and served model name", encoding: "gzip", source: "canonical", body: encode(t, gzipWriter, renamed),
			want: bytes.Replace(plain, []byte(`"model":"chat"`), []byte(`"model":"Qwen/Qwen3-8B"`), 1)},
		bodyCase{name: "gzip passed through", encoding: "gzip", wantEncoding: "gzip", source: "canonical",
			header: map[string]string{"Host": "raw"}, body: gz},
	)
}

// refusedBody is a body that is answered by the gateway itself.
type refusedBody struct {
	name     string
	body     []byte
	encoding string
	status   int
	code     string // of the error; empty: any
}

func refusedBodies(t *testing.T) []refusedBody {
	t.Helper()
	huge := func(n int) []byte {
		return fmt.Appendf(nil, `{"model":"chat","messages":[{"role":"user","content":%q}]}`, strings.Repeat("x", n))
	}
	gz := encode(t, gzipWriter, huge(1<<20))
	return []refusedBody{
		{"over the limit", huge(33 << 20), "", http.StatusRequestEntityTooLarge, "request_too_large"},
		{"over the limit once decoded", encode(t, gzipWriter, huge(40<<20)), "gzip", http.StatusRequestEntityTooLarge, "request_too_large"},
		{"broken gzip", gz[:len(gz)/2], "gzip", http.StatusBadRequest, ""},
		{"unknown coding", []byte(`{"model":"chat"}`), "sdch", http.StatusUnsupportedMediaType, ""},
		{"no model", []byte(`{"messages":[]}`), "", http.StatusNotFound, "model_not_found"},
		{"unknown model", []byte(`{"model":"nobody"}`), "", http.StatusNotFound, "model_not_found"},
		{"model of another type", []byte(`{"model":["chat"]}`), "", http.StatusNotFound, "model_not_found"},
	}
}

func (g *gateway) checkRefusal(t *testing.T, c refusedBody) {
	t.Helper()
	header := map[string]string{"X-Gateway-Model-Name": "chat"} // a client cannot set it
	if c.encoding != "" {
		header["Content-Encoding"] = c.encoding
	}
	a := g.do(request{body: c.body, header: header})
	code := a.code(t)
	if a.status != c.status || c.code != "" && code != c.code {
		t.Errorf("status %d, code %q, want %d, %q: %.300s", a.status, code, c.status, c.code, a.body)
	}
}
