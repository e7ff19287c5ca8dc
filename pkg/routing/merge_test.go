package routing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMerge(t *testing.T) {
	a := &Config{
		Generation:    3,
		Listeners:     []Listener{{Key: "ns/a/http", Port: 80}},
		Routes:        []Route{{Key: "HTTPRoute/ns/both", Listeners: []Attachment{{Listener: "ns/a/http"}}}},
		Backends:      []Backend{{Key: "Model/ns/m"}, {Key: "Model/ns/z"}},
		EndpointLists: []EndpointList{{Key: "Model/ns/m"}},
		Certificates:  []Certificate{{Key: "Secret/ns/tls"}},
	}
	b := &Config{
		Generation: 4,
		Listeners:  []Listener{{Key: "ns/B/http", Port: 81}, {Key: "ns/B/second", Port: 82}},
		Routes: []Route{
			{Key: "HTTPRoute/ns/alone", Listeners: []Attachment{{Listener: "ns/B/http"}}},
			{Key: "HTTPRoute/ns/both", Listeners: []Attachment{{Listener: "ns/B/http"}, {Listener: "ns/B/second", Hostnames: []string{"x"}}}},
		},
		Backends:      []Backend{{Key: "Model/ns/m"}, {Key: "Model/ns/n"}},
		EndpointLists: []EndpointList{{Key: "Model/ns/m"}},
	}
	want := &Config{
		Generation: 4,
		Listeners:  []Listener{{Key: "ns/B/http", Port: 81}, {Key: "ns/B/second", Port: 82}, {Key: "ns/a/http", Port: 80}},
		Routes: []Route{
			{Key: "HTTPRoute/ns/alone", Listeners: []Attachment{{Listener: "ns/B/http"}}},
			{Key: "HTTPRoute/ns/both", Listeners: []Attachment{
				{Listener: "ns/B/http"}, {Listener: "ns/B/second", Hostnames: []string{"x"}}, {Listener: "ns/a/http"}}},
		},
		Backends:      []Backend{{Key: "Model/ns/m"}, {Key: "Model/ns/n"}, {Key: "Model/ns/z"}},
		EndpointLists: []EndpointList{{Key: "Model/ns/m"}},
		Certificates:  []Certificate{{Key: "Secret/ns/tls"}},
	}
	if diff := cmp.Diff(want, Merge(a, b)); diff != "" {
		t.Error("a, b:", diff)
	}
	if diff := cmp.Diff(want, Merge(b, a)); diff != "" {
		t.Error("the order of Configs must not matter:", diff)
	}
	if len(a.Routes[0].Listeners) != 1 || len(b.Routes[1].Listeners) != 2 {
		t.Error("Merge changed its input")
	}
	if diff := cmp.Diff(&Config{}, Merge()); diff != "" {
		t.Error("nothing:", diff)
	}
}

func TestWithout(t *testing.T) {
	whole := func() *Config {
		return &Config{
			Listeners: []Listener{
				{Key: "ns/g/http"},
				{Key: "ns/g/one", Certificates: []string{"Secret/ns/a"}},
				{Key: "ns/g/two", Certificates: []string{"Secret/ns/a", "Secret/ns/b"}},
			},
			Routes: []Route{{
				Key:       "HTTPRoute/ns/r",
				Listeners: []Attachment{{Listener: "ns/g/http"}, {Listener: "ns/g/one"}},
				Rules: []Rule{{
					Filters:  []Filter{{Mirror: &MirrorFilter{Backend: "Model/ns/m"}}},
					Backends: []BackendRef{{Backend: "Model/ns/m", Weight: 1}, {Backend: "Group/ns/l", Weight: 2}},
				}},
			}},
			Backends: []Backend{
				{Key: "Group/ns/l", Members: []string{"Model/ns/m", "Model/ns/n"}},
				{Key: "Model/ns/m", Endpoints: "Model/ns/m"}, {Key: "Model/ns/n"},
			},
			EndpointLists: []EndpointList{{Key: "EndpointList", Endpoints: []Endpoint{{Address: "127.0.0.1:1"}}}},
			Certificates:  []Certificate{{Key: "Secret/ns/a"}, {Key: "Secret/ns/b"}},
		}
	}
	f := func(key string, change func(c *Config)) {
		t.Helper()
		in, want := whole(), whole()
		change(want)
		got, ok := in.Without(key)
		if !ok {
			t.Errorf("%s: not found", key)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("without %s: %s", key, diff)
		}
		if diff := cmp.Diff(whole(), in); diff != "" {
			t.Errorf("without %s changed its input: %s", key, diff)
		}
	}
	f("HTTPRoute/ns/r", func(c *Config) { c.Routes = []Route{} })
	f("ns/g/http", func(c *Config) {
		c.Listeners = c.Listeners[1:]
		c.Routes[0].Listeners = c.Routes[0].Listeners[1:]
	})
	f("Secret/ns/a", func(c *Config) {
		c.Certificates = c.Certificates[1:]
		c.Listeners = []Listener{c.Listeners[0], {Key: "ns/g/two", Certificates: []string{"Secret/ns/b"}}}
		c.Routes[0].Listeners = c.Routes[0].Listeners[:1]
	})
	f("Model/ns/m", func(c *Config) {
		c.Backends = []Backend{{Key: "Group/ns/l", Members: []string{"Model/ns/n"}}, {Key: "Model/ns/n"}}
		c.Routes[0].Rules[0].Filters = []Filter{}
		c.Routes[0].Rules[0].Backends[0].Backend = ""
	})
	f("EndpointList", func(c *Config) { c.EndpointLists[0].Endpoints = nil })
	if _, ok := whole().Without("Model/ns/none"); ok {
		t.Error("a resource that is not there was left out")
	}
}
