package fastproxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/hostile"
	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// strictEngine reads what reaches it as strictly as readStrict does and answers
// each whole request.
type strictEngine struct {
	*rawEngine
	opened, ended atomic.Int64 // connections
	mu            sync.Mutex
	messages      []strictMessage
	strange       []string // what is no well-formed request
	begun         int      // requests that have not come to their end
}

func startStrictEngine(t testing.TB) *strictEngine {
	e := &strictEngine{}
	e.rawEngine = startRawEngine(t, func(c *net.TCPConn, _ int) {
		e.opened.Add(1)
		defer e.ended.Add(1)
		var raw []byte
		piece := make([]byte, 64<<10)
		for {
			n, err := c.Read(piece)
			raw = append(raw, piece[:n]...)
			if err != nil {
				e.left(raw)
				return
			}
			r := readStrict(string(raw))
			if len(r.messages) == 0 && !r.refused {
				continue
			}
			if !e.take(raw, &r) || !answerStrict(c, r.messages[0].method) {
				return
			}
			raw = raw[:0]
		}
	})
	return e
}

// take records what has come; false: it is not one request, and nothing more.
func (e *strictEngine) take(raw []byte, r *strictReading) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.messages = append(e.messages, r.messages...)
	if len(r.messages) != 1 || r.refused || r.begun != nil {
		e.strange = append(e.strange, string(raw))
		return false
	}
	return true
}

// left records what a connection ended with.
func (e *strictEngine) left(raw []byte) {
	if len(raw) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun++
	if r := readStrict(string(raw)); r.begun == nil {
		e.strange = append(e.strange, string(raw))
	}
}

func answerStrict(c net.Conn, method string) bool {
	answer := ok200
	if method == "HEAD" {
		answer = answer[:strings.Index(answer, "\r\n\r\n")+4]
	}
	_, err := io.WriteString(c, answer)
	return err == nil
}

// took returns what has been recorded since the last call, once both ends agree
// on the connections that are left.
func (e *strictEngine) took(t *testing.T, pool *pool) (messages []strictMessage, strange []string, begun int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Microsecond) {
		open, idle := pool.counts()
		dialed := int64(pool.dials.Load() - pool.failures.Load())
		if opened := e.opened.Load(); open == idle && opened == dialed && opened-e.ended.Load() == int64(open) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the two ends never agree on their connections")
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	messages, strange, begun = e.messages, e.strange, e.begun
	e.messages, e.strange, e.begun = nil, nil, 0
	return messages, strange, begun
}

// exchangeFuzz is the products under test: one that streams bodies, and one that
// reads them whole.
type exchangeFuzz struct {
	proxies [2]*proxy
	engines [2]*strictEngine
}

func newExchangeFuzz(f *testing.F) *exchangeFuzz {
	x := &exchangeFuzz{}
	for i, strategy := range []routing.Strategy{routing.StrategyDefault, routing.StrategyPrefix} {
		x.engines[i] = startStrictEngine(f)
		port := testrig.FreePort(f)
		cfg := oneModel(port, strategy, x.engines[i].address)
		cfg.Backends[0].DecodeRequests = false
		x.proxies[i] = startProxy(f, cfg, port, nil)
	}
	return x
}

// FuzzExchange sends raw bytes through the whole data plane to an engine that
// keeps what it gets, and compares that with what an independent strict reading
// of the bytes says must be forwarded: as many requests, each with the same
// method, target, host, fields (but for those of one hop) and body, as many
// answers, and of what is ambiguous nothing but, where its body broke off behind
// a clean head, a message that is seen not to be complete.
func FuzzExchange(f *testing.F) {
	x := newExchangeFuzz(f)
	for i := range hostile.Requests {
		if h := &hostile.Requests[i]; len(h.Raw) < 4<<10 {
			f.Add([]byte(h.Raw), uint16(7*i), i%2 == 0)
			f.Add([]byte(h.Raw), uint16(0), i%2 == 1)
			f.Add([]byte(hostile.GetHead+"Cookie: a=b\r\n\r\n"+hostile.PostHead+"Content-Length: 2\r\n\r\nok"+h.Raw), uint16(50+i), i%2 == 1)
		}
	}
	for i, raw := range exchangeSeeds {
		f.Add([]byte(raw), uint16(i), i%2 == 0)
		f.Add([]byte(raw), uint16(10*i), i%2 != 0)
	}
	f.Fuzz(func(t *testing.T, raw []byte, cut uint16, whole bool) {
		i := 0
		if whole {
			i = 1
		}
		if len(raw) < 32<<10 {
			x.check(t, string(raw), int(cut), i)
		}
	})
}

// exchangeSeeds are what the table of hostile inputs has not.
var exchangeSeeds = []string{
	"HEAD / HTTP/1.1\r\nHost: a\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: a\r\n\r\nDELETE /x HTTP/1.1\r\nHost: [::1]:8\r\n\r\n",
	"OPTIONS http://b.test HTTP/1.1\r\nHost: a\r\n\r\nGET HTTPS://B.test?x HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST /p HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nokGET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: X-A, keep-alive, te\r\nX-A: 1\r\nX-B: 2\r\nTE: gzip, trailers;q=0.5\r\nKeep-Alive: 5\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: cookie,user-agent\r\nCookie: a=b\r\nUser-Agent: x\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Proto: https\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n" + hostile.GetHead + "\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nCookie: a=b; c\r\nCookie: d=e\r\nContent-Type: a/b\r\nUser-Agent: a\r\nUser-Agent: b\r\nX:\r\nX: \t \r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\ncontent-type:\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: a\r\nUser-Agent:\r\nContent-Type:\r\nCookie:\r\nCookie: a\r\nAccept: \r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
	"GET / HTTP/1.0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: x\r\nExpect: y\r\nContent-Length: 003\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n000A;x=\"y\"\r\n0123456789\r\n00;\r\nX-T: 1\r\n\r\n" + hostile.GetHead + "\r\n",
	"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\n{\"model\":\"m\"}",
}

// check sends raw, completed so that the connection comes to an end by itself.
func (x *exchangeFuzz) check(t *testing.T, raw string, cut, i int) {
	if strings.HasPrefix(raw, preface) {
		return // HTTP/2 has its own tests
	}
	raw, ok := ended(raw)
	if !ok {
		return
	}
	want := readStrict(raw)
	if !want.ends() {
		t.Fatalf("the input does not come to an end: %q", raw)
	}
	answers, refused := converse(t, x.proxies[i], raw, cut, &want)
	want.messages = slices.DeleteFunc(want.messages, func(m strictMessage) bool { return m.target == "*" })
	pool := poolOf(x.proxies[i].snapshot().Backend("Model/ns/m").Ready[0])
	got, strange, begun := x.engines[i].took(t, pool)
	if len(strange) > 0 {
		t.Fatalf("%q became %q", raw, strange)
	}
	if begun > 1 || begun == 1 && want.begun == nil && !want.over {
		t.Fatalf("%q became a request that breaks off", raw)
	}
	if len(got) != answers || answers != len(want.messages) && (!want.over || answers > len(want.messages)) {
		t.Fatalf("%q became %d requests and %d answers, want %d", raw, len(got), answers, len(want.messages))
	}
	if refused != want.refused && !want.over {
		t.Fatalf("%q: refused %v, want %v", raw, refused, want.refused)
	}
	for n := range got {
		if diff := forwardedAs(&want.messages[n], &got[n], x.engines[i].address); diff != "" {
			t.Fatalf("request %d of %q: %s", n, raw, diff)
		}
	}
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// ended is raw with what makes a strict reader come to the end of it: the bytes
// that a body lacks, and a line that no reader takes. false: it lacks too many.
func ended(raw string) (string, bool) {
	for range 4 {
		r := readStrict(raw)
		if r.ends() {
			return raw, true
		}
		if r.missing > 64<<10 {
			return "", false
		}
		if r.missing > 0 {
			raw += strings.Repeat("z", r.missing)
		} else {
			raw += "\x00\n"
		}
	}
	return raw, true
}

// converse sends raw in two pieces and reads the answers to the end of the
// connection.
func converse(t *testing.T, p *proxy, raw string, cut int, want *strictReading) (answers int, refused bool) {
	t.Helper()
	conn, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	c := conn.(*net.TCPConn)
	defer c.Close()
	c.SetLinger(0) // thousands of connections a second leave no ports waiting
	c.SetDeadline(time.Now().Add(20 * time.Second))
	cut %= len(raw)
	io.WriteString(c, raw[:cut])
	written := make(chan struct{})
	go func() {
		defer close(written)
		io.WriteString(c, raw[cut:])
	}()
	r := bufio.NewReader(c)
	local := 0 // no rule matches OPTIONS *
	for !refused {
		if _, err := r.Peek(1); err == io.EOF || err != nil && answers+local == len(want.messages) {
			break // what a client sends behind its last request may cost it a reset
		}
		method := "GET"
		if n := answers + local; n < len(want.messages) {
			method = want.messages[n].method
		}
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%q: answer %d: %v", raw, answers, err)
		}
		io.Copy(io.Discard, resp.Body)
		switch {
		case resp.StatusCode == 100:
		case resp.StatusCode == 200:
			answers++
		case resp.StatusCode == 404 && answers+local < len(want.messages) && want.messages[answers+local].target == "*":
			local++
		case resp.StatusCode >= 400 && resp.StatusCode != 502 && resp.StatusCode != 504 && resp.Close:
			refused = true
		default:
			t.Fatalf("%q: answer %d has status %d, close %v", raw, answers, resp.StatusCode, resp.Close)
		}
	}
	if more, err := io.ReadAll(r); len(more) > 0 || refused && err != nil {
		t.Fatalf("%q: the connection goes on with %q, %v", raw, more, err)
	}
	c.Close()
	<-written
	return answers, refused
}

// forwardedAs says in what got differs from what should become of sent at the
// engine of that address.
func forwardedAs(sent, got *strictMessage, engine string) string {
	host := sent.authority
	if host == "" { // HTTP/1.0 without a Host field: the engine's own
		host = engine
	}
	if got.version != "HTTP/1.1" || got.method != sent.method || got.target != sent.target ||
		got.authority != host || got.body != sent.body || got.upgrade != sent.upgrade {
		return fmt.Sprintf("became %+v, want %+v", got, sent)
	}
	want, have := onward(sent), perName(got.fields)
	want["host"] = []string{host}
	for _, framing := range []string{"content-length", "transfer-encoding"} {
		delete(have, framing)
	}
	for name := range have {
		if !slices.Equal(have[name], want[name]) {
			return fmt.Sprintf("%s: became %q, want %q", name, have[name], want[name])
		}
		delete(want, name)
	}
	for name := range want {
		return fmt.Sprintf("%s: %q is lost", name, want[name])
	}
	return ""
}

func perName(fields []strictField) map[string][]string {
	m := map[string][]string{}
	for _, f := range fields {
		m[f.name] = append(m[f.name], f.value)
	}
	return m
}

// onward are the fields that go to the engine, without framing.
func onward(m *strictMessage) map[string][]string {
	fields := perName(m.fields)
	te := fields["te"]
	for option := range m.options() {
		kept := option == "host" || strings.HasPrefix(option, "x-forwarded-") || strings.HasPrefix(option, "content-")
		if !kept {
			delete(fields, option)
		}
	}
	for _, name := range []string{
		"connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te",
		"transfer-encoding", "trailer", "upgrade", "http2-settings", "content-length", "expect",
		"x-forwarded-proto", "x-forwarded-host",
	} {
		delete(fields, name)
	}
	for _, v := range te {
		if slices.ContainsFunc(strings.Split(v, ","), func(s string) bool {
			s, _, _ = strings.Cut(s, ";")
			return strings.EqualFold(strings.Trim(s, " \t"), "trailers")
		}) {
			fields["te"] = append(fields["te"], "trailers")
		}
	}
	if m.upgrade != "" {
		fields["connection"], fields["upgrade"] = []string{"Upgrade"}, []string{m.upgrade}
	}
	fields["x-forwarded-proto"] = []string{"http"}
	if m.authority != "" {
		fields["x-forwarded-host"] = []string{m.authority}
	}
	const client = "127.0.0.1"
	switch from := fields["x-forwarded-for"]; {
	case len(from) == 0:
		fields["x-forwarded-for"] = []string{client}
	case from[len(from)-1] == "":
		from[len(from)-1] = client
	default:
		from[len(from)-1] += ", " + client
	}
	for _, name := range []string{"content-type", "user-agent"} { // empty ones say nothing
		fields[name] = slices.DeleteFunc(fields[name], func(v string) bool { return v == "" })
		if len(fields[name]) == 0 {
			delete(fields, name)
		}
	}
	return fields
}
