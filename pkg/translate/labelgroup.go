package translate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/routing"
)

// labelGroup is a service label and the Models of its namespace that claim it,
// sorted by name.
type labelGroup struct {
	name    types.NamespacedName // the label
	members []*modelState

	resolved bool // whether usable and note are known
	usable   []*modelState
	note     string
}

// formGroups groups the Models by the labels that they claim.
func (t *translation) formGroups() {
	t.groups = map[types.NamespacedName]*labelGroup{}
	for _, obj := range t.in.models {
		m := t.models[nameOf(obj)]
		for _, label := range m.labels {
			name := types.NamespacedName{Namespace: m.name.Namespace, Name: label}
			if t.groups[name] == nil {
				t.groups[name] = &labelGroup{name: name}
			}
			t.groups[name].members = append(t.groups[name].members, m)
		}
	}
}

func (g *labelGroup) key() string { return "Group/" + g.name.String() }

// resolve finds the members that requests can reach, and says which there are.
// Thousands of references may lead to one group.
func (g *labelGroup) resolve() {
	if g.resolved {
		return
	}
	g.resolved = true
	g.usable = slices.DeleteFunc(slices.Clone(g.members), func(m *modelState) bool { return m.unresolved != nil })
	g.note = fmt.Sprintf("%s is a service label, claimed by %s", g.name, describeMembers(g.members))
}

// backend is the group as the data plane gets it. Members that requests cannot
// reach are left out, so that they never take a share of them.
func (g *labelGroup) backend() routing.Backend {
	b := routing.Backend{
		Key:       g.key(),
		Kind:      routing.BackendGroup,
		Namespace: g.name.Namespace,
		Name:      g.name.Name,
		Strategy:  routing.StrategyDefault,
	}
	g.resolve()
	for _, m := range g.usable {
		b.Members = append(b.Members, m.backend.Key)
	}
	return b
}

// resolveModelRef resolves a reference of kind Model: a service label first,
// else a Model's name. note says which it was.
func (t *translation) resolveModelRef(name types.NamespacedName, field string) (key, note string, found *finding) {
	if g := t.groups[name]; g != nil {
		g.resolve()
		if len(g.usable) > 0 {
			return g.key(), g.note, nil
		}
		return "", g.note, &finding{
			reason:  string(gwapiv1.RouteReasonBackendNotFound),
			field:   field,
			message: fmt.Sprintf("no Model that claims the service label %s can be reached; of Model %s: %s", name, g.members[0].name, g.members[0].unresolved.message),
		}
	}
	m := t.models[name]
	switch {
	case m == nil:
		return "", "", &finding{
			reason:  string(gwapiv1.RouteReasonBackendNotFound),
			field:   field,
			message: fmt.Sprintf("%s is neither a service label that a Model claims nor a Model: create the Model or correct the name", name),
		}
	case m.unresolved != nil:
		return "", fmt.Sprintf("%s is a Model", name), &finding{
			reason:  string(gwapiv1.RouteReasonBackendNotFound),
			field:   field,
			message: fmt.Sprintf("Model %s cannot be reached: %s", name, m.unresolved.message),
		}
	}
	return m.backend.Key, fmt.Sprintf("%s is a Model", name), nil
}

func describeMembers(members []*modelState) string {
	var names []string
	for i, m := range members {
		if i == maxDescribed {
			names = append(names, fmt.Sprintf("and %d more", len(members)-maxDescribed))
			break
		}
		names = append(names, m.name.Name)
		if m.unresolved != nil {
			names[i] += " (which cannot be reached)"
		}
	}
	if len(names) == 1 {
		return "Model " + names[0]
	}
	return "Models " + strings.Join(names, ", ")
}
