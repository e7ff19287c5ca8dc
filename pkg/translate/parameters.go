package translate

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// Provision is what an accepted Gateway needs to run on.
type Provision struct {
	// Gateway is the input object.
	Gateway *gwapiv1.Gateway
	// Parameters are the class's and the Gateway's merged; what neither sets is
	// the provisioner's to choose.
	Parameters v1alpha2.GatewayParametersSpec
	// Ports are those of the accepted listeners, ascending, each once.
	Ports []int32
}

// provisions are what the accepted Gateways need, and the names of those that
// are of our classes but not accepted.
func (t *translation) provisions() (needed []Provision, held []types.NamespacedName) {
	for _, obj := range t.in.gateways {
		g := t.gateways[nameOf(obj)]
		switch {
		case g == nil:
		case !g.accepted():
			held = append(held, g.name)
		default:
			needed = append(needed, Provision{Gateway: obj, Parameters: g.parameters, Ports: g.ports()})
		}
	}
	return needed, held
}

func (g *gatewayState) ports() []int32 {
	var ports []int32
	for _, l := range g.listeners {
		if l.accepted() {
			ports = append(ports, l.spec.Port)
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// parametersRef is a reference to parameters, of a class or of a Gateway.
type parametersRef struct {
	field, group, kind string
	name               types.NamespacedName
}

// findParameters returns the parameters that a reference names, or why it
// cannot.
func (t *translation) findParameters(ref parametersRef) (*v1alpha2.GatewayParametersSpec, *finding) {
	refuse := func(field, format string, args ...any) *finding {
		return &finding{
			reason: string(gwapiv1.GatewayReasonInvalidParameters), field: field, message: fmt.Sprintf(format, args...),
		}
	}
	if ref.group != v1alpha2.GroupName || ref.kind != v1alpha2.KindGatewayParameters {
		return nil, refuse(ref.field, "parameters of kind %s are not known here: use %s, or remove the field",
			groupKind(ref.group, ref.kind), groupKind(v1alpha2.GroupName, v1alpha2.KindGatewayParameters))
	}
	if ref.name.Namespace == "" {
		return nil, refuse(ref.field+".namespace", "missing: name the namespace of the %s", ref.kind)
	}
	obj := t.in.parameters[ref.name]
	if obj == nil {
		return nil, refuse(ref.field, "%s %s does not exist: create it, or remove the field", ref.kind, ref.name)
	}
	if f := checkParameters(&obj.Spec); f != nil {
		return nil, refuse(ref.field, "%s %s, %s", ref.kind, ref.name, f)
	}
	return &obj.Spec, nil
}

// resolveParameters merges the parameters of a Gateway with those of its class.
func (t *translation) resolveParameters(obj *gwapiv1.Gateway) (v1alpha2.GatewayParametersSpec, *finding) {
	class := t.classParameters[obj.Spec.GatewayClassName]
	infra := obj.Spec.Infrastructure
	if infra == nil || infra.ParametersRef == nil {
		return mergeParameters(class, nil), nil
	}
	ref := parametersRef{
		field: "spec.infrastructure.parametersRef",
		group: string(infra.ParametersRef.Group), kind: string(infra.ParametersRef.Kind),
		name: types.NamespacedName{Namespace: obj.Namespace, Name: infra.ParametersRef.Name},
	}
	own, f := t.findParameters(ref)
	if f != nil {
		return v1alpha2.GatewayParametersSpec{}, f
	}
	refuse := func(message string) *finding {
		return &finding{
			reason: string(gwapiv1.GatewayReasonInvalidParameters), field: ref.field,
			message: fmt.Sprintf("%s %s, %s", ref.kind, ref.name, message),
		}
	}
	if own.Image != nil {
		return v1alpha2.GatewayParametersSpec{}, refuse("spec.image: counts only in the parameters of a GatewayClass: remove it here")
	}
	merged := mergeParameters(class, own)
	if f := checkParameters(&merged); f != nil {
		return v1alpha2.GatewayParametersSpec{}, refuse(fmt.Sprintf("with the parameters of GatewayClass %s: %s", obj.Spec.GatewayClassName, f))
	}
	return merged, nil
}

// checkParameters finds the first thing that is wrong with parameters.
func checkParameters(spec *v1alpha2.GatewayParametersSpec) *finding {
	var v validator
	validateParameters(spec, &v)
	if len(v.found) == 0 {
		return nil
	}
	return &v.found[0]
}
