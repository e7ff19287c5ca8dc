package provision

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type objectKey struct {
	kind schema.GroupVersionKind
	name types.NamespacedName
}

func (k objectKey) String() string { return k.kind.Kind + " " + k.name.String() }

// desired is one object as it is applied.
type desired struct {
	key     objectKey
	content map[string]any
	hash    string
	// initial is a Deployment's first number of replicas where an autoscaler
	// chooses it; 0: content says the number, or there is none.
	initial int32
}

func newDesired(o client.Object) desired {
	content, err := toApply(o)
	if err != nil {
		panic("BUG: what is desired does not encode: " + err.Error())
	}
	raw, err := json.Marshal(content) // members are sorted
	if err != nil {
		panic("BUG: what is desired does not encode: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return desired{
		key:     objectKey{o.GetObjectKind().GroupVersionKind(), client.ObjectKeyFromObject(o)},
		content: content, hash: string(sum[:]),
	}
}

// written is what was applied last, and which fields were ours after it.
type written struct {
	uid          types.UID
	hash, fields string
}

// holds reports whether an object is still as it was applied, and that is what is
// desired.
func (w written) holds(d desired, held client.Object) bool {
	return held != nil && w.uid == held.GetUID() && w.hash == d.hash && w.fields == fieldsHash(held)
}

// collision says that an object is in the way.
type collision struct{ message string }

func (c *collision) Error() string { return c.message }

// apply applies one object for a Gateway, unless something that is not the
// Gateway's has its name.
func (r *Reconciler) apply(ctx context.Context, gateway types.UID, d desired) (written, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	held, err := r.find(ctx, d.key)
	if err != nil {
		return written{}, fmt.Errorf("cannot read %s: %w", d.key, err)
	}
	content := (&unstructured.Unstructured{Object: d.content}).DeepCopy()
	if held != nil {
		if err := mayChange(held, gateway, d.key); err != nil {
			return written{}, err
		}
		content.SetUID(held.GetUID()) // another object of that name is refused
		if d.initial > 0 && ownsReplicas(held) {
			if err := r.handOver(ctx, d.key, held.GetUID(), replicasOf(held, d.initial)); err != nil {
				return written{}, err
			}
		}
	}
	err = r.opts.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(content), client.FieldOwner(FieldManager), client.ForceOwnership)
	if err != nil {
		return written{}, fmt.Errorf("cannot apply %s: %w", d.key, err)
	}
	if _, err := strip(content); err != nil {
		return written{}, err
	}
	w := written{uid: content.GetUID(), hash: d.hash, fields: fieldsHash(content)}
	if d.initial > 0 && held == nil {
		return w, r.handOver(ctx, d.key, w.uid, d.initial)
	}
	return w, nil
}

// find returns the metadata of an object: the cache's, else the API server's, for
// the cache holds only what bears our labels; nil: there is none.
func (r *Reconciler) find(ctx context.Context, key objectKey) (metav1.Object, error) {
	if held := r.owned.get(key.kind, key.name); held != nil {
		return held, nil
	}
	m := metadataOf(key.kind)
	switch err := r.opts.Client.Get(ctx, key.name, m); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return m, nil
}

// mayChange says why an object must not be touched for a Gateway.
func mayChange(held metav1.Object, gateway types.UID, key objectKey) error {
	ref := ownerOf(held)
	switch {
	case ref != nil && ref.UID == gateway && held.GetDeletionTimestamp() == nil:
		return nil
	case ref != nil && ref.UID == gateway:
		return &collision{fmt.Sprintf("%s is being deleted: it is made anew once it is gone", key)}
	case ref != nil:
		return &collision{fmt.Sprintf("%s belongs to Gateway %s of another time (uid %s): it is made anew once the garbage collector has removed it, or delete it",
			key, ref.Name, ref.UID)}
	}
	if metav1.GetControllerOfNoCopy(held) == nil && fieldsHash(held) != "" {
		return nil // we made it, and somebody took the owner away
	}
	return &collision{fmt.Sprintf("%s exists and was not made for this Gateway: delete it, or give the Gateway another name", key)}
}

// isPassing reports whether an error only says that somebody else was faster.
func isPassing(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// isGone reports whether there is nothing left to delete.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// NamespaceGone reports whether an object cannot be made because the namespace that
// it would be in has gone or is going.
func NamespaceGone(err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces"
}
