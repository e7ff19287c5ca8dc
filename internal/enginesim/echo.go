package enginesim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Request headers that shape the answer of /echo. The latter two may be repeated;
// each holds one "name: value".
const (
	echoStatusHeader  = "X-Echo-Status"
	echoSetHeader     = "X-Echo-Set-Header"
	echoTrailerHeader = "X-Echo-Set-Trailer"
)

// HeaderField is one header line.
type HeaderField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Echo is the answer of /echo: the request as it arrived.
type Echo struct {
	Engine     string `json:"engine"`
	Proto      string `json:"proto"` // "HTTP/1.1" or "HTTP/2.0"
	Method     string `json:"method"`
	RequestURI string `json:"request_uri"` // target, byte for byte
	Host       string `json:"host"`
	// Headers in the order and spelling received, repeated ones kept, Host
	// included, when HeadersAsReceived is true. Otherwise (HTTP/2, pipelining, an
	// Engine behind another server) sorted by name and in Go's spelling.
	Headers           []HeaderField `json:"headers"`
	HeadersAsReceived bool          `json:"headers_as_received"`
	Trailers          []HeaderField `json:"trailers"`
	BodyLength        int64         `json:"body_length"`
	BodySHA256        string        `json:"body_sha256"` // hex
	RemoteAddr        string        `json:"remote_addr"`
}

// serveEcho answers any method on /echo and below. The body is hashed as it
// streams and bounded by nothing.
func (e *Engine) serveEcho(w http.ResponseWriter, r *http.Request, x *exchange, header []byte) {
	hash := sha256.New()
	length, err := io.Copy(hash, r.Body)
	if err != nil {
		x.cancel()
		panic(http.ErrAbortHandler)
	}
	answer := Echo{
		Engine: e.Name(), Proto: r.Proto, Method: r.Method, RequestURI: r.RequestURI, Host: r.Host,
		Headers: parseHeaderLines(header), HeadersAsReceived: header != nil, Trailers: sortedFields(r.Trailer),
		BodyLength: length, BodySHA256: hex.EncodeToString(hash.Sum(nil)), RemoteAddr: r.RemoteAddr,
	}
	if header == nil {
		answer.Headers = sortedFields(r.Header)
	}
	for _, line := range r.Header.Values(echoSetHeader) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			w.Header().Add(name, strings.TrimSpace(value))
		}
	}
	status := http.StatusOK
	if text := r.Header.Get(echoStatusHeader); text != "" {
		if status, err = strconv.Atoi(text); err != nil || status < 200 || status > 599 {
			x.finish()
			writeError(w, r, invalid("", "%s is %q; give a status from 200 to 599", echoStatusHeader, text))
			return
		}
	}
	x.finish()
	writeEcho(w, r, status, answer)
}

// writeEcho sends the answer; with trailers it must be chunked.
func writeEcho(w http.ResponseWriter, r *http.Request, status int, answer Echo) {
	trailers := r.Header.Values(echoTrailerHeader)
	switch {
	case status == http.StatusNoContent || status == http.StatusNotModified:
		w.WriteHeader(status)
		return
	case len(trailers) == 0:
		writeJSON(w, status, answer)
		return
	}
	chunked := &lengthlessWriter{w}
	writeJSON(chunked, status, answer)
	for _, line := range trailers {
		if name, value, ok := strings.Cut(line, ":"); ok {
			w.Header().Add(http.TrailerPrefix+name, strings.TrimSpace(value))
		}
	}
}

// lengthlessWriter drops the Content-Length, which rules trailers out.
type lengthlessWriter struct{ http.ResponseWriter }

func (l *lengthlessWriter) WriteHeader(status int) {
	l.Header().Del("Content-Length")
	l.ResponseWriter.WriteHeader(status)
	_ = http.NewResponseController(l.ResponseWriter).Flush() // net/http sets a length on short answers otherwise
}

// parseHeaderLines splits a header block after its request line. Obsolete line
// folding never gets here: net/http refuses or joins it, and order is all that
// matters.
func parseHeaderLines(block []byte) []HeaderField {
	parsed := []HeaderField{}
	for i, line := range bytes.Split(block, []byte("\r\n")) {
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && i > 0 {
			parsed = append(parsed, HeaderField{Name: string(name), Value: string(bytes.Trim(value, " \t"))})
		}
	}
	return parsed
}

func sortedFields(header http.Header) []HeaderField {
	sorted := []HeaderField{}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			sorted = append(sorted, HeaderField{Name: name, Value: value})
		}
	}
	return sorted
}
