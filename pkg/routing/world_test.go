package routing

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// fields are the header fields of a test request, names canonical.
type fields map[string]string

func (f fields) Value(name string) []byte {
	if v, ok := f[name]; ok {
		return []byte(v)
	}
	return nil
}

// oneField is a header block of one field that does not allocate.
type oneField struct {
	name  string
	value []byte
}

func (f *oneField) Value(name string) []byte {
	if name == f.name {
		return f.value
	}
	return nil
}

// randomSource returns a source whose seed is printed; ROUTING_SEED repeats one.
func randomSource(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("ROUTING_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("ROUTING_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("ROUTING_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// world builds small Configs.
type world struct{ Config }

// model adds a Model with its endpoint list.
func (w *world) model(name string, s Strategy, endpoints ...Endpoint) *Backend {
	key := "Model/ns/" + name
	w.EndpointLists = append(w.EndpointLists, EndpointList{Key: key, Endpoints: endpoints})
	w.Backends = append(w.Backends, Backend{
		Key: key, Kind: BackendModel, Namespace: "ns", Name: name, Strategy: s, Endpoints: key,
	})
	return &w.Backends[len(w.Backends)-1]
}

func (w *world) group(label string, members ...string) {
	b := Backend{Key: "Group/ns/" + label, Kind: BackendGroup, Namespace: "ns", Name: label}
	for _, m := range members {
		b.Members = append(b.Members, "Model/ns/"+m)
	}
	w.Backends = append(w.Backends, b)
}

// config returns the Config with every list in order.
func (w *world) config() *Config {
	c := w.Config
	c.Backends = slices.Clone(c.Backends)
	c.EndpointLists = slices.Clone(c.EndpointLists)
	c.Routes = slices.Clone(c.Routes)
	c.Listeners = slices.Clone(c.Listeners)
	slices.SortFunc(c.Backends, func(a, b Backend) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(c.EndpointLists, func(a, b EndpointList) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(c.Routes, func(a, b Route) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(c.Listeners, func(a, b Listener) int { return cmp.Compare(a.Key, b.Key) })
	return &c
}

// pods are n ready endpoints.
func pods(n int) []Endpoint {
	list := make([]Endpoint, n)
	for i := range list {
		list[i] = Endpoint{Address: fmt.Sprintf("10.%d.%d.%d:8000", i>>16, i>>8&255, i&255), UID: fmt.Sprint("uid-", i), State: EndpointReady}
	}
	slices.SortFunc(list, func(a, b Endpoint) int { return cmp.Compare(a.Address, b.Address) })
	return list
}

func testOptions() *Options {
	o := DefaultOptions()
	return &o
}

func mustCompile(t testing.TB, c *Config, o *Options, prev *Snapshot, reg *Registry) *Snapshot {
	t.Helper()
	s, err := Compile(c, o, prev, reg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// backendOf compiles a world and returns one of its backends.
func backendOf(t testing.TB, w *world, o *Options, key string) *CompiledBackend {
	t.Helper()
	b := mustCompile(t, w.config(), o, nil, NewRegistry(Hooks{})).Backend(key)
	if b == nil {
		t.Fatalf("no backend %s", key)
	}
	return b
}

const (
	second = int64(time.Second)
	// startOfTime is a plausible reading of the clock.
	startOfTime = int64(1_700_000_000) * second
)
