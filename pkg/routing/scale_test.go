package routing

import "fmt"

// manyRoutes is a Config with n routes, each with a hostname, a path and a
// model of its own, and endpoints spread over n/10 Models.
func manyRoutes(n, endpoints int) *Config {
	w := world{}
	w.Listeners = []Listener{
		{Key: "ns/gw/a", Gateway: "ns/gw", Port: 80, Protocol: ProtocolHTTP},
		{Key: "ns/gw/b", Gateway: "ns/gw", Port: 80, Protocol: ProtocolHTTP, Hostname: "*.models.example"},
	}
	models := max(n/10, 1)
	all := pods(endpoints)
	for i := range models {
		from, to := i*endpoints/models, (i+1)*endpoints/models
		m := w.model(fmt.Sprintf("model-%05d", i), StrategyPrefix, all[from:to]...)
		m.Aliases = []string{fmt.Sprint("alias-", i)}
	}
	for i := range n {
		backend := []BackendRef{{Backend: fmt.Sprintf("Model/ns/model-%05d", i%models), Weight: 1}}
		w.Routes = append(w.Routes, Route{
			Key: fmt.Sprintf("HTTPRoute/ns/route-%05d", i),
			Listeners: []Attachment{
				{Listener: "ns/gw/a", Hostnames: []string{fmt.Sprintf("host-%05d.example.com", i)}},
				{Listener: "ns/gw/b"},
			},
			Rules: []Rule{
				{Matches: []Match{{Path: fmt.Sprintf("/team-%05d/v1", i), Method: "POST"}}, Backends: backend},
				{
					Matches: []Match{{
						PathType: PathExact, Path: "/v1/chat/completions",
						Headers: []ValueMatch{{Name: HeaderModelName, Value: fmt.Sprintf("name-%05d", i)}},
					}},
					Backends: backend,
				},
			},
		})
	}
	return w.config()
}

// requestsFor are requests of three kinds for manyRoutes(n, …): by host and
// path, by path below a wildcard, and by model.
func requestsFor(n int) []Request {
	headers := &oneField{"X-Tenant", []byte("a")}
	var out []Request
	for i := range n {
		out = append(out,
			Request{
				Method: []byte("POST"), Host: fmt.Appendf(nil, "host-%05d.example.com", i),
				Path: fmt.Appendf(nil, "/team-%05d/v1/chat/completions", i), Headers: headers,
			},
			Request{
				Method: []byte("POST"), Host: []byte("api.models.example"),
				Path: fmt.Appendf(nil, "/team-%05d/v1/chat/completions", i), Headers: headers,
			},
			Request{
				Method: []byte("POST"), Host: []byte("api.models.example"),
				Path: []byte("/v1/chat/completions"), Headers: headers, Model: fmt.Appendf(nil, "name-%05d", i),
			})
	}
	return out
}
