package translate

import (
	"bytes"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// mergeParameters lays the Gateway's parameters over those of its class: objects
// and maps are merged member by member, everything else is replaced. The number
// of replicas and the autoscaler exclude each other, so that either of the
// Gateway's takes the place of both of the class's; a Gateway's type ClusterIP
// takes the class's externalTrafficPolicy with it, which means nothing there.
// Nil is no parameters.
func mergeParameters(class, gateway *v1alpha2.GatewayParametersSpec) v1alpha2.GatewayParametersSpec {
	switch {
	case class == nil && gateway == nil:
		return v1alpha2.GatewayParametersSpec{}
	case class == nil:
		return *gateway.DeepCopy()
	case gateway == nil:
		return *class.DeepCopy()
	}
	base := *class
	if gateway.Replicas != nil {
		base.Autoscaling = nil
	}
	if gateway.Autoscaling != nil {
		base.Replicas = nil
	}
	if s := gateway.Service; base.Service != nil && s != nil && deref(s.Type, "") == string(corev1.ServiceTypeClusterIP) {
		base.Service = base.Service.DeepCopy()
		base.Service.ExternalTrafficPolicy = nil
	}
	members := toMembers(base)
	overlay(members, toMembers(*gateway))
	raw, err := json.Marshal(members)
	if err != nil {
		panic("BUG: parameters do not encode: " + err.Error())
	}
	var merged v1alpha2.GatewayParametersSpec
	if err := json.Unmarshal(raw, &merged); err != nil {
		panic("BUG: merged parameters do not decode: " + err.Error())
	}
	return merged
}

// toMembers is a spec as plain JSON values, numbers kept as they are written.
func toMembers(spec v1alpha2.GatewayParametersSpec) map[string]any {
	raw, err := json.Marshal(spec)
	if err != nil {
		panic("BUG: parameters do not encode: " + err.Error())
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var members map[string]any
	if err := decoder.Decode(&members); err != nil {
		panic("BUG: parameters do not decode: " + err.Error())
	}
	return members
}

// overlay puts the members of top over those of base.
func overlay(base, top map[string]any) {
	for key, value := range top {
		below, isBelow := base[key].(map[string]any)
		above, isAbove := value.(map[string]any)
		if isBelow && isAbove {
			overlay(below, above)
			continue
		}
		base[key] = value
	}
}
