package publish

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"flexinfer.ai/gateway/pkg/routing"
)

// kind is the kind of a resource of routing.Config.
type kind string

// The kinds, in the order in which they travel.
const (
	kindCertificate  kind = "certificate"
	kindListener     kind = "listener"
	kindEndpointList kind = "endpoints"
	kindBackend      kind = "backend"
	kindRoute        kind = "route"
)

// resourceID names a resource: its Key is unique within its kind.
type resourceID struct {
	Kind kind
	Key  string
}

// MarshalText writes "kind key": no kind has a blank.
func (id resourceID) MarshalText() ([]byte, error) {
	return []byte(string(id.Kind) + " " + id.Key), nil
}

// UnmarshalText reads what MarshalText wrote.
func (id *resourceID) UnmarshalText(text []byte) error {
	k, key, ok := strings.Cut(string(text), " ")
	if !ok {
		return fmt.Errorf("%q is no kind and key", text)
	}
	id.Kind, id.Key = kind(k), key
	return nil
}

func (id resourceID) compare(other resourceID) int {
	return cmp.Or(cmp.Compare(id.Kind, other.Kind), cmp.Compare(id.Key, other.Key))
}

// resource is one resource as it travels. Content is the JSON of the routing
// type; it may hold a private key.
type resource struct {
	ID      resourceID
	Version string
	Content json.RawMessage

	value      any   // what Content says: a routing.Route and so on, by value
	unreadable error // why value says nothing; only of what came over the wire
}

// newResource encodes one resource.
func newResource(id resourceID, value any) (*resource, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("%s %s cannot be encoded: %w", id.Kind, id.Key, err)
	}
	return &resource{ID: id, Version: contentVersion(content), Content: content, value: value}, nil
}

// contentVersion is the hash of a resource's content. It is a cryptographic one:
// nobody can write an object that passes for another.
func contentVersion(content []byte) string {
	sum := sha256.Sum256(content)
	return base64.RawURLEncoding.EncodeToString(sum[:15])
}

// revision is a Config as resources. It is immutable.
type revision struct {
	whole
	config    *routing.Config
	resources map[resourceID]*resource
}

// newRevision encodes a Config; what is as it was in former, which may be nil,
// is taken from there. The cost of an unchanged resource is a comparison.
func newRevision(cfg *routing.Config, former *revision) (*revision, error) {
	r := &revision{config: cfg, resources: make(map[resourceID]*resource, size(cfg))}
	e := encoder{into: r.resources}
	if former != nil {
		e.former = former.resources
	}
	encode(&e, kindCertificate, cfg.Certificates, func(c *routing.Certificate) string { return c.Key })
	encode(&e, kindListener, cfg.Listeners, func(l *routing.Listener) string { return l.Key })
	encode(&e, kindEndpointList, cfg.EndpointLists, func(l *routing.EndpointList) string { return l.Key })
	encode(&e, kindBackend, cfg.Backends, func(b *routing.Backend) string { return b.Key })
	encode(&e, kindRoute, cfg.Routes, func(r *routing.Route) string { return r.Key })
	if e.err != nil {
		return nil, e.err
	}
	r.whole = whole{Generation: cfg.Generation, Version: wholeVersion(r.resources)}
	return r, nil
}

func size(c *routing.Config) int {
	return len(c.Listeners) + len(c.Routes) + len(c.Backends) + len(c.EndpointLists) + len(c.Certificates)
}

type encoder struct {
	into, former map[resourceID]*resource
	err          error
}

func encode[T any](e *encoder, k kind, all []T, key func(*T) string) {
	for i := range all {
		id := resourceID{k, key(&all[i])}
		if old := e.former[id]; old != nil && reflect.DeepEqual(old.value, all[i]) {
			e.into[id] = old
			continue
		}
		r, err := newResource(id, all[i])
		if err != nil {
			e.err = err
			return
		}
		e.into[id] = r
	}
}

// wholeVersion is the version of a Config: a hash over its resources' versions.
func wholeVersion(resources map[resourceID]*resource) string {
	ids := make([]resourceID, 0, len(resources))
	for id := range resources {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, resourceID.compare)
	hash := sha256.New()
	var line []byte
	for _, id := range ids {
		line = append(append(append(line[:0], id.Kind...), ' '), id.Key...)
		line = append(append(append(line, ' '), resources[id].Version...), '\n')
		_, _ = hash.Write(line)
	}
	return base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:15])
}

// decode fills in the value of a resource that came over the wire.
func (r *resource) decode() error {
	if r.Version != contentVersion(r.Content) {
		return fmt.Errorf("%s %s is not what its version says", r.ID.Kind, r.ID.Key)
	}
	var err error
	switch r.ID.Kind {
	case kindCertificate:
		r.value, err = decodeAs(r.Content, func(c *routing.Certificate) string { return c.Key })
	case kindListener:
		r.value, err = decodeAs(r.Content, func(l *routing.Listener) string { return l.Key })
	case kindEndpointList:
		r.value, err = decodeAs(r.Content, func(l *routing.EndpointList) string { return l.Key })
	case kindBackend:
		r.value, err = decodeAs(r.Content, func(b *routing.Backend) string { return b.Key })
	case kindRoute:
		r.value, err = decodeAs(r.Content, func(r *routing.Route) string { return r.Key })
	default:
		err = fmt.Errorf("this gateway does not know that kind; it is older than its controller: update it")
	}
	if err != nil {
		return fmt.Errorf("%s %s cannot be read: %w", r.ID.Kind, r.ID.Key, err)
	}
	return nil
}

// decodeAs refuses fields that this process does not know: serving a resource
// without them might mean something else than was asked for.
func decodeAs[T any](content []byte, key func(*T) string) (any, error) {
	var v T
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if key(&v) == "" {
		return nil, fmt.Errorf("it has no key")
	}
	return v, nil
}

// assemble makes the Config of a set of resources.
func assemble(generation uint64, resources map[resourceID]*resource) *routing.Config {
	cfg := &routing.Config{Generation: generation}
	for _, r := range resources {
		switch v := r.value.(type) {
		case routing.Certificate:
			cfg.Certificates = append(cfg.Certificates, v)
		case routing.Listener:
			cfg.Listeners = append(cfg.Listeners, v)
		case routing.EndpointList:
			cfg.EndpointLists = append(cfg.EndpointLists, v)
		case routing.Backend:
			cfg.Backends = append(cfg.Backends, v)
		case routing.Route:
			cfg.Routes = append(cfg.Routes, v)
		}
	}
	sortByKey(cfg.Certificates, func(c *routing.Certificate) string { return c.Key })
	sortByKey(cfg.Listeners, func(l *routing.Listener) string { return l.Key })
	sortByKey(cfg.EndpointLists, func(l *routing.EndpointList) string { return l.Key })
	sortByKey(cfg.Backends, func(b *routing.Backend) string { return b.Key })
	sortByKey(cfg.Routes, func(r *routing.Route) string { return r.Key })
	return cfg
}

func sortByKey[T any](all []T, key func(*T) string) {
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(key(&a), key(&b)) })
}

// ResourceVersion is the version of what goes by a Key in a Config: of the
// backend and its endpoints together, where both do. "" where there is nothing.
func ResourceVersion(cfg *routing.Config, key string) string {
	r, err := newRevision(&routing.Config{
		Listeners:     keyed(cfg.Listeners, key, func(l *routing.Listener) string { return l.Key }),
		Routes:        keyed(cfg.Routes, key, func(r *routing.Route) string { return r.Key }),
		Backends:      keyed(cfg.Backends, key, func(b *routing.Backend) string { return b.Key }),
		EndpointLists: keyed(cfg.EndpointLists, key, func(l *routing.EndpointList) string { return l.Key }),
		Certificates:  keyed(cfg.Certificates, key, func(c *routing.Certificate) string { return c.Key }),
	}, nil)
	if err != nil || len(r.resources) == 0 {
		return ""
	}
	return r.Version
}

// keyedVersion is ResourceVersion of what is held.
func keyedVersion(resources map[resourceID]*resource, key string) string {
	found := map[resourceID]*resource{}
	for _, k := range []kind{kindCertificate, kindListener, kindEndpointList, kindBackend, kindRoute} {
		if r := resources[resourceID{k, key}]; r != nil {
			found[r.ID] = r
		}
	}
	return wholeVersion(found)
}

func keyed[T any](all []T, key string, keyOf func(*T) string) []T {
	for i := range all {
		if keyOf(&all[i]) == key {
			return all[i : i+1]
		}
	}
	return nil
}
