package translate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"flexinfer.ai/gateway/pkg/routing"
)

// configBuilder gathers one Config, each resource once.
type configBuilder struct {
	config   routing.Config
	backends map[string]bool
	certs    map[types.NamespacedName]bool
}

// buildConfigs makes the Config of every accepted Gateway. It holds only what
// the Gateway's accepted listeners and routes need.
func (t *translation) buildConfigs() []GatewayConfig {
	var configs []GatewayConfig
	for _, obj := range t.in.gateways {
		g := t.gateways[nameOf(obj)]
		if g == nil || !g.accepted() {
			continue
		}
		c := GatewayConfig{Gateway: g.name, Generation: obj.Generation}
		if g.rest != nil {
			c.Config, c.Complete = *g.rest, *g.complete
		} else {
			c.Config = t.buildConfig(g)
			c.Complete = c.Config
		}
		configs = append(configs, c)
	}
	return configs
}

func (t *translation) buildConfig(g *gatewayState) routing.Config {
	b := &configBuilder{backends: map[string]bool{}, certs: map[types.NamespacedName]bool{}}
	for _, l := range g.listeners {
		if l.serves() {
			b.config.Listeners = append(b.config.Listeners, l.config(g.name.String()))
			t.addCertificates(l, b)
		}
	}
	for _, r := range t.routes {
		attachments := r.attachments(g)
		if len(attachments) == 0 {
			continue
		}
		b.config.Routes = append(b.config.Routes, routing.Route{
			Key:       "HTTPRoute/" + r.name.String(),
			Created:   createdSeconds(r.obj),
			Listeners: attachments,
			Rules:     r.rules,
		})
		for _, key := range slices.Sorted(maps.Keys(r.refs.keys)) {
			t.addBackend(key, b)
		}
	}
	sortConfig(&b.config)
	return b.config
}

func (t *translation) addCertificates(l *listenerState, b *configBuilder) {
	for _, key := range l.certs {
		_, name := splitKey(key)
		if !b.certs[name] {
			b.certs[name] = true
			b.config.Certificates = append(b.config.Certificates, t.certs[name].cert)
		}
	}
}

// splitKey splits "Kind/namespace/name".
func splitKey(key string) (kind string, name types.NamespacedName) {
	kind, rest, _ := strings.Cut(key, "/")
	name.Namespace, name.Name, _ = strings.Cut(rest, "/")
	return kind, name
}

func sortConfig(c *routing.Config) {
	slices.SortFunc(c.Listeners, func(a, b routing.Listener) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(c.Routes, func(a, b routing.Route) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(c.Backends, func(a, b routing.Backend) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(c.EndpointLists, func(a, b routing.EndpointList) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(c.Certificates, func(a, b routing.Certificate) int { return cmp.Compare(a.Key, b.Key) })
}
