package scale

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientretry "k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"flexinfer.ai/gateway/internal/control/status"
	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// scale reads the target's replicas and writes the number that the action asks
// for, through the scale subresource alone: any kind that has one is scaled the
// same way. A write between the two is a conflict, and everything is looked at anew.
func (c *carrier) scale(ctx context.Context, a Action) (o Outcome, err error) {
	target, err := a.Model.Target.object()
	if err != nil {
		return Outcome{}, err
	}
	err = clientretry.RetryOnConflict(clientretry.DefaultBackoff, func() error {
		o, err = c.scaleOnce(ctx, a, target)
		return err
	})
	return o, err
}

func (c *carrier) scaleOnce(ctx context.Context, a Action, target *unstructured.Unstructured) (Outcome, error) {
	scale := &unstructured.Unstructured{}
	scale.SetAPIVersion("autoscaling/v1")
	scale.SetKind("Scale")
	if err := c.o.Client.SubResource("scale").Get(ctx, target, scale); err != nil {
		return Outcome{}, err
	}
	before, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	if err != nil {
		return Outcome{}, fmt.Errorf("its scale cannot be read: %w", err)
	}
	o := Outcome{Before: int32(before), After: a.replicas(int32(before))}
	if o.After == o.Before {
		return o, nil
	}
	if a.Verb == Sleep && c.crossed(a.Model.Key) {
		o.After = o.Before
		return o, nil
	}
	if err := unstructured.SetNestedField(scale.Object, int64(o.After), "spec", "replicas"); err != nil {
		return Outcome{}, err
	}
	return o, c.o.Client.SubResource("scale").Update(ctx, target, client.WithSubResourceBody(scale), client.FieldOwner(status.FieldOwner))
}

// replicas is what becomes of a target's replicas.
func (a Action) replicas(now int32) int32 {
	switch {
	case a.Verb == Wake && now == 0:
		return max(1, a.Model.MinReplicas)
	case a.Verb == Sleep:
		return min(now, a.Model.MinReplicas)
	}
	return now
}

// object is the target with nothing but its name.
func (t Target) object() (*unstructured.Unstructured, error) {
	gv, err := schema.ParseGroupVersion(t.APIVersion)
	if err != nil || gv.Version == "" || t.Kind == "" {
		return nil, &meta.NoKindMatchError{GroupKind: gv.WithKind(t.Kind).GroupKind(), SearchedVersions: []string{t.APIVersion}}
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gv.WithKind(t.Kind))
	o.SetNamespace(t.Namespace)
	o.SetName(t.Name)
	return o, nil
}

// explain says why a target cannot be scaled and how to mend it.
func (t Target) explain(err error) (reason, message string) {
	what := fmt.Sprintf("%s %s", t.Kind, t.Name)
	switch {
	case meta.IsNoMatchError(err):
		return v1alpha2.ReasonTargetNotFound, fmt.Sprintf(
			"the API server knows no kind %s of %s: correct spec.scaleTargetRef, or install the kind", t.Kind, t.APIVersion)
	case apierrors.IsNotFound(err) && lacksScale(err):
		return v1alpha2.ReasonNotScalable, fmt.Sprintf(
			"%s cannot be scaled, because the kind %s of %s has no scale subresource: name a workload that has one in spec.scaleTargetRef",
			what, t.Kind, t.APIVersion)
	case apierrors.IsNotFound(err) && t.isCustom():
		return v1alpha2.ReasonTargetNotFound, fmt.Sprintf(
			"there is no %s in the namespace, or its kind has no scale subresource: create it, or name a workload that has one in spec.scaleTargetRef", what)
	case apierrors.IsNotFound(err):
		return v1alpha2.ReasonTargetNotFound, fmt.Sprintf(
			"there is no %s in the namespace: create it, or name the workload in spec.scaleTargetRef", what)
	case apierrors.IsForbidden(err):
		return v1alpha2.ReasonNotPermitted, fmt.Sprintf(
			"the controller is not let scale %s: an administrator has to grant it get and update on the scale of that kind: %s", what, first(err))
	}
	return v1alpha2.ReasonScaleFailed, fmt.Sprintf("%s cannot be scaled; it is tried again: %s", what, first(err))
}

// isCustom says whether the kind may be one of a CustomResourceDefinition. An API
// server answers for those alike whether the object or the subresource is missing.
func (t Target) isCustom() bool { return strings.Contains(t.APIVersion, ".") }

// lacksScale tells the answer for a built-in kind without the subresource from the
// one for an object that does not exist, which names the object.
func lacksScale(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details == nil || details.Name == ""
}

// maxCause is how much of an API server's answer is passed on, in bytes.
const maxCause = 512

// first is the first line of an error.
func first(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.ToValidUTF8(line[:min(len(line), maxCause)], "")
}
