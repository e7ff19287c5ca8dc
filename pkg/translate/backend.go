package translate

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/routing"
)

// refs collects what becomes of a route's references to backends.
type refs struct {
	keys  map[string]bool // of backends that resolved
	notes []string        // what each Model reference turned out to be, each once
	found []finding       // with reasons of ResolvedRefs
}

// resolve resolves one reference of a route to a backend's key; the key is
// empty where it did not resolve.
func (t *translation) resolve(route types.NamespacedName, ref gwapiv1.BackendObjectReference, field string, into *refs) (key string) {
	key, note, f := t.resolveBackendRef(route, ref, field)
	if note != "" && !slices.Contains(into.notes, note) {
		into.notes = append(into.notes, note)
	}
	if f != nil {
		into.found = append(into.found, *f)
		return ""
	}
	into.keys[key] = true
	return key
}

func (t *translation) resolveBackendRef(route types.NamespacedName, ref gwapiv1.BackendObjectReference, field string) (key, note string, found *finding) {
	group, kind := deref(ref.Group, ""), deref(ref.Kind, "Service")
	isModel := group == v1alpha2.GroupName && kind == v1alpha2.KindModel
	if !isModel && (group != "" || kind != "Service") {
		return "", "", unknownBackendKind(group, kind, field)
	}
	name := types.NamespacedName{Namespace: deref(ref.Namespace, route.Namespace), Name: string(ref.Name)}
	if !t.grants.allows(grantKey{
		fromGroup: gwapiv1.GroupName, fromKind: string(kindHTTPRoute), fromNamespace: route.Namespace,
		toGroup: group, toKind: kind, toNamespace: name.Namespace, toObject: name.Name,
	}) {
		return "", "", &finding{
			reason:  string(gwapiv1.RouteReasonRefNotPermitted),
			field:   field,
			message: notPermitted(kind, name, string(kindHTTPRoute), route.Namespace),
		}
	}
	if isModel {
		return t.resolveModelRef(name, field)
	}
	key, found = t.resolveService(name, ref.Port, field)
	return key, "", found
}

// unknownBackendKind finds a reference to what is no backend: most often one to a
// Model that leaves its group out.
func unknownBackendKind(group, kind, field string) *finding {
	f := &finding{
		reason:  string(gwapiv1.RouteReasonInvalidKind),
		field:   field + ".kind",
		message: fmt.Sprintf("a backend of kind %s is not known: use %s or Service", groupKind(group, kind), groupKind(v1alpha2.GroupName, v1alpha2.KindModel)),
	}
	if kind == v1alpha2.KindModel {
		f.field = field + ".group"
		f.message = fmt.Sprintf("a backend of kind %s needs group: %s", kind, v1alpha2.GroupName)
	}
	return f
}

// addBackends adds backends and, of groups, their members, with their endpoint
// lists, to a Config under construction.
func (t *translation) addBackend(key string, into *configBuilder) {
	if into.backends[key] {
		return
	}
	into.backends[key] = true
	if s := t.services[key]; s != nil {
		into.config.Backends = append(into.config.Backends, s.backend)
		into.config.EndpointLists = append(into.config.EndpointLists, s.list)
		return
	}
	kind, name := splitKey(key)
	if kind == string(routing.BackendGroup) {
		group := t.groups[name].backend()
		into.config.Backends = append(into.config.Backends, group)
		for _, member := range group.Members {
			t.addBackend(member, into)
		}
		return
	}
	m := t.models[name]
	into.config.Backends = append(into.config.Backends, m.backend)
	into.config.EndpointLists = append(into.config.EndpointLists, m.list)
}
