package translate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

var gatewayClassConditions = []string{string(gwapiv1.GatewayClassConditionStatusAccepted)}

// translateClasses finds the GatewayClasses that are ours and accepts them.
func (t *translation) translateClasses() []ObjectStatus[gwapiv1.GatewayClassStatus] {
	var statuses []ObjectStatus[gwapiv1.GatewayClassStatus]
	t.classes = map[gwapiv1.ObjectName]bool{}
	t.classParameters = map[gwapiv1.ObjectName]*v1alpha2.GatewayParametersSpec{}
	if implied := gwapiv1.ObjectName(t.opts.ImpliedClass); implied != "" {
		t.classes[implied] = true
	}
	for _, class := range t.in.classes {
		name := gwapiv1.ObjectName(class.Name)
		if class.Spec.ControllerName != t.opts.controllerName() {
			delete(t.classes, name)
			continue
		}
		status, accepted := t.classStatus(class)
		t.classes[name] = accepted
		statuses = append(statuses, ObjectStatus[gwapiv1.GatewayClassStatus]{
			Name: nameOf(class), Generation: class.Generation, Status: status,
		})
	}
	return statuses
}

func (t *translation) classStatus(class *gwapiv1.GatewayClass) (gwapiv1.GatewayClassStatus, bool) {
	ok, reason, message := true, gwapiv1.GatewayClassReasonAccepted, "Gateways of this class are served"
	if ref := class.Spec.ParametersRef; ref != nil {
		parameters, f := t.findParameters(parametersRef{
			field: "spec.parametersRef", group: string(ref.Group), kind: string(ref.Kind),
			name: types.NamespacedName{Namespace: deref(ref.Namespace, ""), Name: ref.Name},
		})
		if f != nil {
			ok, reason, message = false, gwapiv1.GatewayClassReasonInvalidParameters, f.String()
			t.warn("GatewayClass", types.NamespacedName{Name: class.Name}, f.field, f.message)
		}
		t.classParameters[gwapiv1.ObjectName(class.Name)] = parameters
	}
	status := *class.Status.DeepCopy()
	status.Conditions = mergeConditions(status.Conditions,
		[]metav1.Condition{newCondition(gwapiv1.GatewayClassConditionStatusAccepted, ok, reason, message)},
		gatewayClassConditions, class.Generation, t.opts.Now)
	status.SupportedFeatures = supportedFeatures()
	return status, ok
}
