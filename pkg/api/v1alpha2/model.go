package v1alpha2

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Service is the name of the Service whose EndpointSlices are the Model's
// replicas.
func (m *Model) Service() string {
	if m.Spec.ServiceName != "" {
		return m.Spec.ServiceName
	}
	return m.Name
}

// ScaleTarget is the workload of the Model's namespace that the Model is scaled
// through, whether or not there is one; every field is set.
func (m *Model) ScaleTarget() ScaleTargetReference {
	target := ScaleTargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: m.Name}
	ref := m.Spec.ScaleTargetRef
	if ref == nil {
		return target
	}
	if ref.APIVersion != "" {
		target.APIVersion = ref.APIVersion
	}
	if ref.Kind != "" {
		target.Kind = ref.Kind
	}
	target.Name = ref.Name
	return target
}

// ManagesPhase reports whether a managed-fields entry holds status.phase.
func ManagesPhase(entry metav1.ManagedFieldsEntry) bool {
	if entry.FieldsV1 == nil {
		return false
	}
	var fields struct {
		Status map[string]json.RawMessage `json:"f:status"`
	}
	if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
		return false
	}
	_, ok := fields.Status["f:phase"]
	return ok
}
