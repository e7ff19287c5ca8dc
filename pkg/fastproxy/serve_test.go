package fastproxy

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// received is what an engine got of a request, as it tells in its answer.
type received struct {
	Engine, Method, Target, Host string
	Header                       http.Header
	Body                         string
}

// mirrorEngine answers with what it received.
func mirrorEngine(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(received{name, r.Method, r.RequestURI, r.Host, r.Header, string(body)})
	})
}

// twoModels routes by X-Gateway-Model-Name to the Models a and b.
func twoModels(t *testing.T, port uint16) routing.Config {
	cfg := routing.Config{
		Listeners: []routing.Listener{{Key: "ns/gw/http", Gateway: "ns/gw", Port: port, Protocol: routing.ProtocolHTTP}},
		Routes:    []routing.Route{{Key: "HTTPRoute/ns/r", Listeners: []routing.Attachment{{Listener: "ns/gw/http"}}}},
	}
	for _, name := range []string{"a", "b"} {
		key := "Model/ns/" + name
		cfg.Routes[0].Rules = append(cfg.Routes[0].Rules, routing.Rule{
			Matches:  []routing.Match{{Headers: []routing.ValueMatch{{Name: "x-gateway-model-name", Value: name}}}},
			Backends: []routing.BackendRef{{Backend: key, Weight: 1}},
		})
		cfg.Backends = append(cfg.Backends, routing.Backend{
			Key: key, Kind: routing.BackendModel, Namespace: "ns", Name: name,
			Strategy: routing.StrategyPrefix, Endpoints: key, DecodeRequests: true,
		})
		cfg.EndpointLists = append(cfg.EndpointLists, routing.EndpointList{Key: key, Endpoints: []routing.Endpoint{
			{Address: startEngine(t, mirrorEngine(name)), State: routing.EndpointReady},
		}})
	}
	return cfg
}

// TestModelByBody: the body's model chooses the rule wherever it stands; what
// the client claims in the header never does; the engine gets the bytes as they
// were, but for the model's served name and a coding that is undone.
func TestModelByBody(t *testing.T) {
	port := testrig.FreePort(t)
	cfg := twoModels(t, port)
	cfg.Backends[1].ServedModelName = "/models/\"b\""
	cfg.Backends[1].Aliases = []string{"b-alias"}
	p := startProxy(t, cfg, port, nil)
	tools := strings.Repeat(`{"type":"function","function":{"name":"f","description":"d"}},`, 3<<20/60)
	refused := func(name string, status int, body string, header ...string) {
		t.Helper()
		resp := p.post(newClient(t), "/v1/chat/completions", body, header...)
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%s: status %d, want %d", name, resp.StatusCode, status)
		}
	}
	f := func(name, body, engine, got string, header ...string) {
		t.Helper()
		resp := p.post(newClient(t), "/v1/chat/completions?x=a%2Fb", body, header...)
		defer resp.Body.Close()
		var r received
		if err := json.NewDecoder(resp.Body).Decode(&r); err != nil || resp.StatusCode != 200 {
			t.Errorf("%s: status %d, %v", name, resp.StatusCode, err)
			return
		}
		if r.Engine != engine {
			t.Errorf("%s: engine %q, want %q", name, r.Engine, engine)
		}
		if r.Body != got {
			t.Errorf("%s: the engine got %.200q (%d bytes), want %.200q (%d bytes)", name, r.Body, len(r.Body), got, len(got))
		}
		if r.Target != "/v1/chat/completions?x=a%2Fb" {
			t.Errorf("%s: target %q", name, r.Target)
		}
	}
	same := func(name, body, engine string, header ...string) { t.Helper(); f(name, body, engine, body, header...) }

	same("in front", `{"model":"a","messages":[]}`, "a")
	same("odd spelling", " {\t\"m\\u006fdel\" : \"\\u0061\" , \"n\": 1.50e0 }", "a")
	same("behind 3 MB of tools", `{"tools":[`+strings.TrimSuffix(tools, ",")+`],"model":"a"}`, "a")
	same("the header is not believed", `{"model":"a"}`, "a", "X-Gateway-Model-Name", "b")
	same("the last of two counts", `{"model":"b","model":"a"}`, "a")
	refused("no model", 404, `{"messages":[]}`, "X-Gateway-Model-Name", "a")
	refused("invalid JSON", 400, `{"model":"a"`)
	refused("a field break in the name", 404, "{\"model\":\"a\\r\\nX: y\"}")
	f("served name", `{ "model" : "b", "n": 1.50e0 }`, "b", `{ "model" : "/models/\"b\"", "n": 1.50e0 }`)
	f("alias", `{"model":"b-alias"}`, "b", `{"model":"/models/\"b\""}`)

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, `{"model":"b"}`)
	z.Close()
	f("gzip", packed.String(), "b", `{"model":"/models/\"b\""}`, "Content-Encoding", "gzip")

	// A coding that hides the model is the client's mistake, in its API's shape.
	for coding, status := range map[string]int{"gzip": 400, "sdch": 415} {
		resp := p.post(newClient(t), "/v1/chat/completions", packed.String()[:packed.Len()-9], "Content-Encoding", coding)
		var e struct {
			Error struct{ Message, Code string }
		}
		if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || resp.StatusCode != status || e.Error.Code == "" {
			t.Errorf("cut %s: status %d, error %+v, %v; want %d", coding, resp.StatusCode, e, err, status)
		}
		resp.Body.Close()
	}
}

// TestWhyNoModel: a request that finds no rule for want of a model is told why.
func TestWhyNoModel(t *testing.T) {
	port := testrig.FreePort(t)
	p := startProxy(t, twoModels(t, port), port, nil)
	f := func(name, body, contentType string, status int, code, says string) {
		t.Helper()
		resp := p.post(newClient(t), "/v1/chat/completions", body, "Content-Type", contentType)
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		var e struct {
			Error struct{ Message, Code, Param string }
		}
		err := json.Unmarshal(text, &e)
		if resp.StatusCode != status || (err == nil) != (code != "") || e.Error.Code != code || !strings.Contains(string(text), says) {
			t.Errorf("%s: %d %s, want %d %s", name, resp.StatusCode, text, status, code)
		}
	}
	const untyped = "application/octet-stream"
	f("unknown model", `{"model":"c"}`, untyped, 404, "model_not_found", "does not exist")
	f("no model", `{"messages":[]}`, untyped, 404, "model_not_found", "names no model")
	f("model of another kind", `{"model":5}`, untyped, 404, "model_not_found", "names no model")
	f("cut off behind the model", `{"model":"a","messages":[`, untyped, 400, "invalid_request", "no complete JSON object")
	f("cut off in front of it", ` {"messages":[`, untyped, 400, "invalid_request", "no complete JSON object")
	f("an array", `["a"]`, "application/json; charset=utf-8", 400, "invalid_request", "no complete JSON object")
	f("no JSON at all", `hello`, "application/JSON", 400, "invalid_request", "no complete JSON object")
	f("a text", `hello`, "text/plain", 404, "", "no route matches")
}

// TestNoReplica: 503 says whether none is ready or none could be reached.
func TestNoReplica(t *testing.T) {
	f := func(says string, endpoints ...string) {
		t.Helper()
		port := testrig.FreePort(t)
		cfg := oneModel(port, routing.StrategyLeastLoaded, endpoints...)
		cfg.Backends[0].Service = refusingAddress(t)
		p := startProxy(t, cfg, port, nil)
		resp := p.post(newClient(t), "/v1/chat/completions", chat)
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 503 || !bytes.Contains(text, []byte("service_unavailable")) || !bytes.Contains(text, []byte(says)) {
			t.Errorf("%d endpoints: %d %s, want %q in it", len(endpoints), resp.StatusCode, text, says)
		}
	}
	f("is ready")
	f("could be reached", refusingAddress(t))
}

// TestBodyLimits: over the limit is 413 with the limit named, never a guess, for
// declared, chunked and decoded lengths.
func TestBodyLimits(t *testing.T) {
	port := testrig.FreePort(t)
	p := startProxy(t, twoModels(t, port), port, func(o *Options) { o.Limits.BodyBytes = 100_000 })
	big := `{"model":"a","x":"` + strings.Repeat("y", 100_000) + `"}`
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	io.WriteString(z, big)
	z.Close()
	for name, c := range map[string]struct {
		body   io.Reader
		coding string
	}{
		"declared": {strings.NewReader(big), ""},
		"chunked":  {io.MultiReader(strings.NewReader(big)), ""},
		"decoded":  {&bomb, "gzip"},
	} {
		req, _ := http.NewRequest("POST", p.url("/v1/chat/completions"), c.body)
		if c.coding != "" {
			req.Header.Set("Content-Encoding", c.coding)
		}
		resp, err := newClient(t).Do(req)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 413 || !bytes.Contains(body, []byte("100000")) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
	}
	eventually(t, "the body budget is free", func() bool { return p.bodies.used.Load() == 0 })
}

// TestUnknownCoding: 415 for a Model that gets bodies decoded; a plain Service
// gets the body as it came.
func TestUnknownCoding(t *testing.T) {
	for kind, want := range map[routing.BackendKind]int{routing.BackendModel: 415, routing.BackendService: 200} {
		port := testrig.FreePort(t)
		cfg := oneModel(port, routing.StrategyPrefix, startEngine(t, mirrorEngine("e")))
		b := &cfg.Backends[0]
		b.Kind, b.DecodeRequests = kind, kind == routing.BackendModel
		p := startProxy(t, cfg, port, nil)
		resp := p.post(newClient(t), "/x", "??", "Content-Encoding", "lzw")
		if resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d", kind, resp.StatusCode, want)
		}
		resp.Body.Close()
	}
}

// TestFiltersEndToEnd: each filter does its work on the wire.
func TestFiltersEndToEnd(t *testing.T) {
	port := testrig.FreePort(t)
	engine := startEngine(t, mirrorEngine("e"))
	copies := make(chan received, 1)
	copyEngine := startEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		copies <- received{Method: r.Method, Target: r.RequestURI, Body: string(body)}
		w.WriteHeader(500)
	}))
	cfg := oneModel(port, routing.StrategyDefault, engine)
	cfg.Backends = append(cfg.Backends, routing.Backend{Key: "Service/ns/copy:80", Kind: routing.BackendService, Namespace: "ns", Name: "copy",
		Strategy: routing.StrategyDefault, Endpoints: "Service/ns/copy:80"})
	cfg.EndpointLists = append(cfg.EndpointLists, routing.EndpointList{Key: "Service/ns/copy:80",
		Endpoints: []routing.Endpoint{{Address: copyEngine, State: routing.EndpointReady}}})
	to := []routing.BackendRef{{Backend: "Model/ns/m", Weight: 1}}
	cfg.Routes[0].Rules = []routing.Rule{
		{Matches: []routing.Match{{Path: "/rewrite"}}, Backends: to, Filters: []routing.Filter{
			{Rewrite: &routing.RewriteFilter{Hostname: "other.example", Path: &routing.PathRewrite{Type: routing.ReplacePrefixMatch, Value: "/to"}}},
			{RequestHeaders: &routing.HeaderFilter{Set: []routing.Header{{Name: "X-Set", Value: "1"}}, Remove: []string{"X-Gone"}}},
			{ResponseHeaders: &routing.HeaderFilter{Add: []routing.Header{{Name: "X-Answer", Value: "2"}}}},
		}},
		{Matches: []routing.Match{{Path: "/redirect"}}, Filters: []routing.Filter{{Redirect: &routing.RedirectFilter{Scheme: "https", Status: 301}}}},
		{Matches: []routing.Match{{Path: "/mirror"}}, Backends: to, Filters: []routing.Filter{
			{Mirror: &routing.MirrorFilter{Backend: "Service/ns/copy:80", Numerator: 1, Denominator: 1}}}},
		{Matches: []routing.Match{{Path: "/fault"}}, Fault: 500},
		{Matches: []routing.Match{{Path: "/nobackend"}}, Backends: []routing.BackendRef{{Weight: 1}}},
		{Matches: []routing.Match{{Path: "/cors", Method: "PUT"}}, Backends: to, Filters: []routing.Filter{
			{CORS: &routing.CORSFilter{AllowOrigins: []string{"https://a.example"}, AllowMethods: []string{"PUT"}}}}},
	}
	p := startProxy(t, cfg, port, nil)
	client := newClient(t)

	resp := p.post(client, "/rewrite/x%2Fy?q=1", "body", "X-Gone", "here")
	var r received
	json.NewDecoder(resp.Body).Decode(&r)
	if r.Target != "/to/x%2Fy?q=1" || r.Host != "other.example" || r.Header.Get("X-Set") != "1" || r.Header.Get("X-Gone") != "" || resp.Header.Get("X-Answer") != "2" {
		t.Errorf("rewrite: %+v, answer %v", r, resp.Header)
	}
	resp = p.post(client, "/redirect/a", "")
	if got := resp.Header.Get("Location"); resp.StatusCode != 301 || got != "https://127.0.0.1/redirect/a" {
		t.Errorf("redirect: %d %q", resp.StatusCode, got)
	}
	resp = p.post(client, "/mirror/z", "copied")
	if resp.StatusCode != 200 {
		t.Errorf("mirror: %d", resp.StatusCode)
	}
	if c := <-copies; c.Body != "copied" || c.Target != "/mirror/z" {
		t.Errorf("copy: %+v", c)
	}
	for _, path := range []string{"/fault", "/nobackend"} {
		if resp = p.post(client, path, ""); resp.StatusCode != 500 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	req, _ := http.NewRequest("OPTIONS", p.url("/cors"), nil)
	req.Header.Set("Origin", "https://a.example")
	req.Header.Set("Access-Control-Request-Method", "PUT")
	resp, err := client.Do(req)
	if err != nil || resp.StatusCode != 204 || resp.Header.Get("Access-Control-Allow-Origin") != "https://a.example" {
		t.Errorf("preflight: %v %v", resp, err)
	}
	if resp = p.post(client, "/cors", ""); resp.StatusCode != 404 {
		t.Errorf("POST on a PUT rule: %d", resp.StatusCode)
	}
	eventually(t, "copies have ended", func() bool { return p.loads() == 0 })
}

// TestMisdirected: a Host of another listener than the handshake's is 421.
func TestMisdirected(t *testing.T) {
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyDefault, startEngine(t, mirrorEngine("e")))
	cfg.Listeners = nil
	cfg.Routes[0].Listeners = nil
	for _, host := range []string{"a.example", "b.example"} {
		cert, key := testrig.SelfSigned(t, host)
		cfg.Certificates = append(cfg.Certificates, routing.Certificate{Key: "Secret/ns/" + host, CertPEM: cert, KeyPEM: key})
		cfg.Listeners = append(cfg.Listeners, routing.Listener{Key: "ns/gw/" + host, Gateway: "ns/gw", Port: port,
			Protocol: routing.ProtocolHTTPS, Hostname: host, Certificates: []string{"Secret/ns/" + host}})
		cfg.Routes[0].Listeners = append(cfg.Routes[0].Listeners, routing.Attachment{Listener: "ns/gw/" + host})
	}
	p := startProxy(t, cfg, port, nil)
	for _, h2 := range []bool{false, true} {
		for host, want := range map[string]int{"a.example": 200, "b.example": 421, "c.example": 421} {
			tr := tlsTransport("a.example", h2)
			req, _ := http.NewRequest("POST", "https://"+p.address()+"/", strings.NewReader("{}"))
			req.Host = host
			resp, err := (&http.Client{Transport: tr}).Do(req)
			if err != nil {
				t.Errorf("%s: %v", host, err)
				continue
			}
			if resp.StatusCode != want {
				t.Errorf("h2 %v, SNI a.example, Host %s: %d, want %d", h2, host, resp.StatusCode, want)
			}
			resp.Body.Close()
			tr.CloseIdleConnections()
		}
	}
	if _, err := (&http.Client{Transport: tlsTransport("c.example", false)}).Get("https://" + p.address() + "/"); err == nil ||
		!strings.Contains(fmt.Sprint(err), "unrecognized name") {
		t.Errorf("unknown SNI: %v", err)
	}
}

// TestConnectionNominates: what a client's Connection names goes, but nothing that
// the gateway says itself, and no filter sets a field of the hop.
func TestConnectionNominates(t *testing.T) {
	port := testrig.FreePort(t)
	cfg := twoModels(t, port)
	cfg.Routes[0].Rules[0].Filters = []routing.Filter{{RequestHeaders: &routing.HeaderFilter{
		Set: []routing.Header{
			{Name: "X-Org", Value: "set"}, {Name: "Authorization", Value: "set"}, {Name: "User-Agent", Value: "set"},
			{Name: "Connection", Value: "X-Org"}, {Name: "Keep-Alive", Value: "1"},
		},
		Add: []routing.Header{{Name: "X-Add", Value: "added"}},
	}}}
	p := startProxy(t, cfg, port, nil)
	resp := p.post(newClient(t), "/v1/chat/completions", `{"model":"a"}`, "X-Org", "claimed", "X-Hop", "1", "X-Add", "claimed",
		"Connection", "X-Org, Authorization, User-Agent, X-Add, X-Hop, X-Gateway-Model-Name, X-Forwarded-For, Host, Content-Length")
	defer resp.Body.Close()
	var got received
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || resp.StatusCode != 200 {
		t.Fatal(resp.StatusCode, err)
	}
	for name, want := range map[string]string{
		"X-Org": "set", "Authorization": "set", "User-Agent": "set", "X-Add": "added", "X-Gateway-Model-Name": "a",
		"X-Forwarded-For": "127.0.0.1", "X-Hop": "", "Connection": "", "Keep-Alive": "",
	} {
		if value := got.Header.Get(name); value != want {
			t.Errorf("the engine got %s: %q, want %q", name, value, want)
		}
	}
	if got.Body != `{"model":"a"}` {
		t.Errorf("the engine got body %q", got.Body)
	}
}
