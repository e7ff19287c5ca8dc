package translate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// translation is the working state of one Translate call: the indexed input
// and what has been found so far. Its stages run in the order of Translate.
type translation struct {
	opts Options
	in   *index

	grants  grantSet
	classes map[gwapiv1.ObjectName]bool // ours; accepted or not
	// classParameters are those of our accepted classes that name some.
	classParameters map[gwapiv1.ObjectName]*v1alpha2.GatewayParametersSpec
	certs           map[types.NamespacedName]certificateResult
	models          map[types.NamespacedName]*modelState
	groups          map[types.NamespacedName]*labelGroup
	services        map[string]*serviceBackend             // by backend key
	ports           map[types.NamespacedName]map[int32]int // of Services, their indexes by number
	gateways        map[types.NamespacedName]*gatewayState
	routes          []*routeState

	warnings []Warning
}

// Translate turns objects into one routing.Config for each Gateway and into the
// statuses of all objects concerned. It is a pure function: the order within
// Resources does not matter, and the same input gives the same Result, byte for
// byte. It never fails and never panics: what is wrong with an object is in
// that object's conditions and in Warnings, and harms nothing else.
//
// Cost: O(objects · log objects + routes · parentRefs · listeners).
func Translate(res Resources, opts Options) Result {
	t := &translation{
		opts:     opts,
		in:       newIndex(res),
		certs:    map[types.NamespacedName]certificateResult{},
		services: map[string]*serviceBackend{},
		ports:    map[types.NamespacedName]map[int32]int{},
	}
	t.grants = newGrantSet(t.in.referenceGrants)

	var r Result
	r.GatewayClasses = t.translateClasses()
	t.resolveModels()
	t.formGroups()
	t.resolveGateways()
	t.translateRoutes()
	r.LeftOut = t.leaveOutRefused()
	for _, route := range t.routes {
		route.countAttached()
	}

	r.Configs = t.buildConfigs()
	r.Provisions, r.Held = t.provisions()
	r.Gateways = t.gatewayStatuses()
	r.HTTPRoutes = t.routeStatuses()
	r.Models = t.modelStatuses()
	r.Warnings = t.sortedWarnings()
	return r
}

// warn records a mistake in an object.
func (t *translation) warn(kind string, name types.NamespacedName, field, message string) {
	t.warnings = append(t.warnings, Warning{
		Kind: kind, Namespace: name.Namespace, Name: name.Name, Field: field, Message: message,
	})
}

// warnOwnerless records a mistake that leaves an object without a controller.
func (t *translation) warnOwnerless(kind string, name types.NamespacedName, field, message string) {
	t.warn(kind, name, field, message)
	t.warnings[len(t.warnings)-1].Ownerless = true
}

// maxWarnings bounds how many mistakes of one kind in one object are told.
const maxWarnings = 100

// warnAll records findings as mistakes in an object.
func (t *translation) warnAll(kind string, name types.NamespacedName, found []finding) {
	for i, f := range found {
		if i == maxWarnings {
			t.warn(kind, name, "", fmt.Sprintf("%d more mistakes of that kind: mend the ones before first", len(found)-maxWarnings))
			return
		}
		t.warn(kind, name, f.field, f.message)
	}
}

// sortedWarnings orders warnings by object; those of one object keep the order
// of its fields, in which they were found.
func (t *translation) sortedWarnings() []Warning {
	slices.SortStableFunc(t.warnings, func(a, b Warning) int {
		return cmp.Or(
			strings.Compare(a.Kind, b.Kind),
			strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name),
		)
	})
	return slices.Compact(t.warnings)
}
