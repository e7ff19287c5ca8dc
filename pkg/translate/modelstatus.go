package translate

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/routing"
)

// modelConditions are ours. That of the scale target is the scaler's, which has
// nothing to say any more about a Model that is not serverless: it goes.
var (
	modelConditions    = []string{v1alpha2.ConditionResolvedRefs, v1alpha2.ConditionRoutingValid, v1alpha2.ConditionNamesValid}
	unscaledConditions = append(slices.Clone(modelConditions), v1alpha2.ConditionScaleTargetReady)
)

// modelStatuses are the statuses of all Models.
func (t *translation) modelStatuses() []ObjectStatus[v1alpha2.ModelStatus] {
	var statuses []ObjectStatus[v1alpha2.ModelStatus]
	for _, obj := range t.in.models {
		m := t.models[nameOf(obj)]
		status := *obj.Status.DeepCopy()
		status.Endpoints = countReady(m.list.Endpoints)
		status.TotalEndpoints = t.countReplicas(m)
		status.Ready = fmt.Sprintf("%d/%d", status.Endpoints, status.TotalEndpoints)
		status.Strategy = strategyNames[m.backend.Strategy]
		status.Phase = t.phase(m)
		owned := modelConditions
		if m.backend.Serverless == nil {
			owned = unscaledConditions
		}
		status.Conditions = mergeConditions(status.Conditions, m.conditions(status.Phase), owned, obj.Generation, t.opts.Now)
		statuses = append(statuses, ObjectStatus[v1alpha2.ModelStatus]{Name: m.name, Generation: obj.Generation, Status: status})
	}
	return statuses
}

// strategyNames are the routing strategies as a status says them.
var strategyNames = map[routing.Strategy]string{
	routing.StrategyDefault:     v1alpha2.RoutingDefault,
	routing.StrategySession:     v1alpha2.RoutingSessionAffinity,
	routing.StrategyPrefix:      v1alpha2.RoutingPrefix,
	routing.StrategyLeastLoaded: v1alpha2.RoutingLeastLoaded,
}

// countReplicas is how many replicas there should be, as the scale target says,
// or are: while a target is scaled down, some more may still be ready.
func (t *translation) countReplicas(m *modelState) int32 {
	total := countReady(m.list.Endpoints)
	if replicas, ok := t.in.scaleTargets[scaleTargetOf(m.obj)]; ok {
		return max(total, replicas)
	}
	for _, e := range m.list.Endpoints {
		if e.State == routing.EndpointNotReady {
			total++
		}
	}
	return total
}

func (m *modelState) conditions(phase v1alpha2.Phase) []metav1.Condition {
	message := "Requests reach the Model through Service " + m.serviceName().String()
	if phase == v1alpha2.PhaseLoading && len(m.list.Endpoints) == 0 {
		message += ", which has no endpoint yet: where pods run, its selector or targetPort does not match them"
	}
	resolved := newCondition(v1alpha2.ConditionResolvedRefs, true, v1alpha2.ReasonResolvedRefs, message)
	if m.unserved != nil {
		resolved = newCondition(v1alpha2.ConditionResolvedRefs, false, m.unserved.reason, m.unserved.String())
	}
	if m.unresolved != nil {
		resolved = newCondition(v1alpha2.ConditionResolvedRefs, false, m.unresolved.reason, m.unresolved.String())
	}
	return []metav1.Condition{
		resolved,
		validity(v1alpha2.ConditionRoutingValid, v1alpha2.ReasonInvalidValue, m.steering, "All routing settings are in use"),
		validity(v1alpha2.ConditionNamesValid, v1alpha2.ReasonAliasConflict, m.names, "All names are the Model's own"),
	}
}

// validity is a condition that is True where nothing was found.
func validity(kind, reason string, found []finding, otherwise string) metav1.Condition {
	if len(found) > 0 {
		return newCondition(kind, false, reason, describe(found))
	}
	return newCondition(kind, true, v1alpha2.ReasonValid, otherwise)
}

// phase is the Model's phase: as another operator set it, else derived.
func (t *translation) phase(m *modelState) v1alpha2.Phase {
	if phase := t.foreignPhase(m.obj); phase != "" {
		return phase
	}
	if countReady(m.list.Endpoints) > 0 {
		return v1alpha2.PhaseReady
	}
	if replicas, ok := t.in.scaleTargets[scaleTargetOf(m.obj)]; ok && replicas == 0 {
		return v1alpha2.PhaseIdle
	}
	return v1alpha2.PhaseLoading
}

// foreignPhase is status.phase where somebody else owns the field, else "". An
// object without managed fields comes from a file, whose author owns it.
func (t *translation) foreignPhase(obj *v1alpha2.Model) v1alpha2.Phase {
	if obj.Status.Phase == "" || len(obj.ManagedFields) == 0 {
		return obj.Status.Phase
	}
	for _, entry := range obj.ManagedFields {
		if entry.Manager != t.opts.FieldManager && v1alpha2.ManagesPhase(entry) {
			return obj.Status.Phase
		}
	}
	return ""
}

// scaleTargetOf names the workload that a Model is scaled through.
func scaleTargetOf(obj *v1alpha2.Model) scaleTargetKey {
	t := obj.ScaleTarget()
	return scaleTargetKey{t.APIVersion, t.Kind, obj.Namespace, t.Name}
}
