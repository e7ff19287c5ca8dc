package scale

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"flexinfer.ai/gateway/internal/control/status"
	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// Reasons of events.
const (
	reasonWoken  = "Woken"
	reasonAsleep = "ScaledDown"
)

// carrier does what an Action says. Safe for concurrent use; a Model has one
// action at a time.
type carrier struct {
	o Options
	// crossed says whether a Model has been active since its action was decided.
	crossed func(model string) bool

	mu   sync.Mutex
	told map[string]told // by Model
}

// carry does one action. Whatever concerns the scale target is told on the Model.
func (c *carrier) carry(ctx context.Context, a Action) Outcome {
	bounded, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	if a.Verb == Touch {
		return Outcome{Err: c.touch(bounded, a)}
	}
	o, err := c.scale(bounded, a)
	if o.Err = err; err != nil && ctx.Err() != nil {
		return o // the process ends: that says nothing about the target
	}
	telling, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	c.tell(telling, a, o)
	return o
}

// touch writes lastActiveTime and nothing else, so that it meets no other
// writer of the status.
func (c *carrier) touch(ctx context.Context, a Action) error {
	patch := fmt.Sprintf(`{"status":{"lastActiveTime":%q}}`, a.Active.UTC().Format(time.RFC3339))
	err := c.o.Client.Status().Patch(ctx, named(a.Model.Key), client.RawPatch(types.MergePatchType, []byte(patch)),
		client.FieldOwner(status.FieldOwner))
	if err = client.IgnoreNotFound(err); err != nil {
		c.o.Logger.Warn("cannot write a Model's last activity; it is tried again", "model", a.Model.Key, "error", err)
	}
	return err
}

// tell makes the outcome of a scaling known: the condition, events, the log.
func (c *carrier) tell(ctx context.Context, a Action, o Outcome) {
	target := a.Model.Target
	what := fmt.Sprintf("%s %s", target.Kind, target.Name)
	if o.Err == nil && o.Before != o.After {
		c.o.Logger.Info("scaled a Model's target", "action", a.Verb, "model", a.Model.Key, "target", what,
			"from", o.Before, "to", o.After, "waiting", a.Waiting, "idle", a.Idle.Round(time.Second))
	}
	model := named(a.Model.Key)
	if err := c.o.Models.Get(ctx, client.ObjectKeyFromObject(model), model); err != nil {
		if client.IgnoreNotFound(err) != nil {
			c.o.Logger.Warn("cannot read a Model, so its scaling is not told on it", "model", a.Model.Key, "error", err)
		}
		return
	}
	want := conditionOf(a.Model, o.Err)
	if o.Err != nil {
		level := slog.LevelWarn
		if held := c.held(a.Model.Key, model, want.Type); held != nil && held.Status == want.Status && held.Message == want.Message {
			level = slog.LevelDebug // the Model says so already, and its author may be slow
		}
		c.o.Logger.Log(ctx, level, "cannot scale a Model's target; it is tried again", "action", a.Verb, "model", a.Model.Key, "target", what, "error", o.Err)
	}
	if o.Err == nil && o.Before != o.After {
		reason, text := reasonWoken, fmt.Sprintf("Scaled %s from %d to %d: %s", what, o.Before, o.After, why(a))
		if o.After < o.Before {
			reason = reasonAsleep
		}
		c.o.Recorder.Event(reference(model), corev1.EventTypeNormal, reason, text)
	}
	c.setCondition(ctx, model, want)
}

func why(a Action) string {
	switch {
	case a.Verb == Sleep:
		return fmt.Sprintf("no request for %s", a.Idle.Round(time.Second))
	case a.Waiting == 1:
		return "a request waits"
	case a.Waiting > 1:
		return fmt.Sprintf("%d requests wait", a.Waiting)
	}
	return "a request came while it was scaled down"
}

// named is a Model with nothing but its name; key is "namespace/name".
func named(key string) *v1alpha2.Model {
	namespace, name, _ := strings.Cut(key, "/")
	return &v1alpha2.Model{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func reference(m *v1alpha2.Model) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: v1alpha2.GroupVersion.String(), Kind: v1alpha2.KindModel,
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
	}
}
