package enginesim

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Response headers for tests.
const (
	engineHeader  = "X-Engine"
	bodySumHeader = "X-Engine-Body-Sha256"
)

// endpoint is how one path is served: either plain, or as an API call whose body
// is a JSON object.
type endpoint struct {
	methods []string
	plain   http.HandlerFunc
	call    apiCall
}

// apiCall serves a request whose body is f. It returns an apiError for one it
// refuses, with nothing written yet, and any other error when the client is gone.
type apiCall func(w http.ResponseWriter, r *http.Request, x *exchange, f fields) error

func (e *Engine) endpoints() map[string]endpoint {
	get := func(h http.HandlerFunc) endpoint { return endpoint{methods: []string{"GET", "HEAD"}, plain: h} }
	post := func(c apiCall) endpoint { return endpoint{methods: []string{"POST"}, call: c} }
	return map[string]endpoint{
		"/v1/chat/completions":      post(e.serveChat),
		"/v1/completions":           post(e.serveCompletions),
		"/v1/responses":             post(e.serveResponses),
		"/v1/embeddings":            post(e.serveEmbeddings),
		"/v1/messages":              post(e.serveMessages),
		"/v1/messages/count_tokens": post(e.serveCountTokens),
		"/v1/models":                get(e.serveModels),
		"/health":                   get(func(http.ResponseWriter, *http.Request) {}),
		"/metrics":                  get(e.metrics.handler.ServeHTTP),
		"/reset_prefix_cache":       {methods: []string{"POST"}, plain: func(http.ResponseWriter, *http.Request) { e.ResetPrefixCache() }},
		"/debug/requests":           get(e.serveCounters),
		"/debug/fault":              {methods: []string{"GET", "HEAD", "POST", "DELETE"}, plain: e.serveFault},
	}
}

// counted tells whether requests for the endpoint appear in Counters: all but
// those that look at the engine. Paths without an endpoint count.
func (p endpoint) counted() bool { return p.plain == nil }

// ServeHTTP serves one request. Paths are looked up as they are: no cleaning, no
// redirects, since /echo must see them untouched.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(engineHeader, e.Name())
	if isAnthropic(r.URL.Path) {
		w.Header().Set("Request-Id", e.newID("req_"))
	}
	header := takeHeader(r)
	route := e.routes[r.URL.Path]
	books := &e.ledger
	if !route.counted() {
		books = &ledger{}
	}
	x := books.begin(r)
	defer x.end()
	if f, lifted, ok := e.faults.take(r.URL.Path); ok {
		if w = e.suffer(w, r, x, f, lifted); w == nil {
			return
		}
	}
	e.dispatch(w, r, x, route, header)
}

func (e *Engine) dispatch(w http.ResponseWriter, r *http.Request, x *exchange, route endpoint, header []byte) {
	path := r.URL.Path
	switch {
	case path == "/echo" || strings.HasPrefix(path, "/echo/"):
		e.serveEcho(w, r, x, header)
	case path == "/ws" || strings.HasPrefix(path, "/ws/") || path == "/v1/realtime":
		e.serveWebSocket(w, r, x)
	case strings.HasPrefix(path, "/v1/models/") && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		e.serveModel(w, r, strings.TrimPrefix(path, "/v1/models/"))
	case route.methods == nil:
		writeError(w, r, apiError{status: http.StatusNotFound, message: "no such path on this engine: " + path})
	case !slices.Contains(route.methods, r.Method):
		allowed := strings.Join(route.methods, ", ")
		w.Header().Set("Allow", allowed)
		writeError(w, r, apiError{status: http.StatusMethodNotAllowed, message: path + " takes " + allowed})
	case route.plain != nil:
		route.plain(w, r)
	default:
		e.serveCall(w, r, x, route)
	}
}

// serveCall reads the body and makes the API call. An error of the client becomes
// an answer; any other means that there is nobody left to answer, and the
// connection must look cut.
func (e *Engine) serveCall(w http.ResponseWriter, r *http.Request, x *exchange, route endpoint) {
	body, err := readBody(w, r, e.options.MaxBodyBytes)
	if err != nil {
		e.refuseBody(w, r, x, err)
		return
	}
	w.Header().Set(bodySumHeader, body.sum)
	f, err := parseFields(body.bytes)
	if err == nil {
		err = route.call(w, r, x, f)
	}
	var refused apiError
	switch {
	case err == nil:
	case errors.As(err, &refused):
		x.finish()
		writeError(w, r, refused)
	default:
		x.cancel()
		panic(http.ErrAbortHandler)
	}
}

// takeHeader returns the header block as received, nil where it is not known, and
// sees to it that the next request's is recorded once this one's body is read.
func takeHeader(r *http.Request) []byte {
	conn := connOf(r)
	if conn == nil {
		return nil
	}
	header := conn.takeHeader(r)
	if r.Body == nil || r.Body == http.NoBody {
		conn.recordNext()
	} else {
		r.Body = &watchedBody{ReadCloser: r.Body, conn: conn}
	}
	return header
}

// watchedBody tells the connection when the body has been read to its end.
type watchedBody struct {
	io.ReadCloser
	conn *engineConn
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.conn.recordNext()
	}
	return n, err
}
