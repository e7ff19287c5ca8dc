package scale

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"flexinfer.ai/gateway/internal/control/status"
	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// told is the condition that was last written on a Model.
type told struct {
	uid       types.UID
	condition metav1.Condition
	at        time.Time
}

// toldFor is how long what was written counts in place of what is read, which
// may come from a cache that does not have it yet.
const toldFor = 10 * time.Second

// conditionOf is what the outcome of a scaling says about the Model's target.
func conditionOf(m Model, err error) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha2.ConditionScaleTargetReady, Status: metav1.ConditionTrue, Reason: v1alpha2.ReasonScalable,
		Message: fmt.Sprintf("The Model is scaled through %s %s", m.Target.Kind, m.Target.Name), ObservedGeneration: m.Generation,
	}
	if err != nil {
		c.Status = metav1.ConditionFalse
		c.Reason, c.Message = m.Target.explain(err)
	}
	return c
}

// setCondition writes the condition where the Model does not have it yet, by a
// server-side apply that owns this one entry of the list and leaves the others
// alone. A new fault is told as an event too.
func (c *carrier) setCondition(ctx context.Context, model *v1alpha2.Model, want metav1.Condition) {
	key := model.Namespace + "/" + model.Name
	held := c.held(key, model, want.Type)
	if held != nil && held.ObservedGeneration > want.ObservedGeneration {
		return // of an older generation than what is known
	}
	want.LastTransitionTime = metav1.Now()
	if held != nil && held.Status == want.Status {
		want.LastTransitionTime = held.LastTransitionTime
	}
	if held != nil && *held == want {
		return
	}
	if err := c.apply(ctx, model, want); err != nil {
		if client.IgnoreNotFound(err) != nil {
			c.o.Logger.Warn("cannot write a Model's condition; it is tried again with the next scaling", "model", key, "condition", want.Type, "error", err)
		}
		return
	}
	c.mu.Lock()
	c.told[key] = told{model.UID, want, time.Now()}
	c.mu.Unlock()
	if want.Status == metav1.ConditionFalse && (held == nil || held.Reason != want.Reason || held.Message != want.Message) {
		c.o.Recorder.Event(reference(model), corev1.EventTypeWarning, want.Reason, want.Message)
	}
}

// held is the Model's condition as far as it is known, nil: it has none.
func (c *carrier) held(key string, model *v1alpha2.Model, kind string) *metav1.Condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.told, func(_ string, t told) bool { return time.Since(t.at) > toldFor })
	if t, ok := c.told[key]; ok && t.uid == model.UID {
		return &t.condition
	}
	return meta.FindStatusCondition(model.Status.Conditions, kind)
}

func (c *carrier) apply(ctx context.Context, model *v1alpha2.Model, want metav1.Condition) error {
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": want.Type, "status": string(want.Status), "reason": want.Reason, "message": want.Message,
		"observedGeneration": want.ObservedGeneration, "lastTransitionTime": want.LastTransitionTime.UTC().Format(time.RFC3339),
	}}}}}
	u.SetGroupVersionKind(v1alpha2.GroupVersion.WithKind(v1alpha2.KindModel))
	u.SetNamespace(model.Namespace)
	u.SetName(model.Name)
	u.SetUID(model.UID)
	return c.o.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(status.FieldOwner), client.ForceOwnership)
}
