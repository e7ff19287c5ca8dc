package trust

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretName is the Secret in the controller's namespace that holds the CA.
const SecretName = "flexinfer-ca"

// refresh is how often a Keeper looks at the Secret.
const refresh = time.Minute

// KeeperOptions is what a Keeper needs. All but Now are required.
type KeeperOptions struct {
	// Client reads and writes without a cache: get and update on the one Secret,
	// create on Secrets of Namespace.
	Client    client.Client
	Namespace string
	// Generate makes a CA: certificate and key, PEM.
	Generate func() (cert, key []byte, err error)
	Logger   *slog.Logger
	Now      func() time.Time // nil: time.Now
}

// CA is the installation's certificate authority at one time.
type CA struct {
	// CertPEM and KeyPEM sign. Never log them.
	CertPEM, KeyPEM []byte
	// BundlePEM is what gateway pods and the controller trust: the signing
	// certificate first, a successor, and predecessors until they expire.
	BundlePEM []byte
}

// String keeps the key out of logs.
func (c *CA) String() string { return "certificate authority" }

// LogValue keeps the key out of structured logs.
func (c *CA) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Keeper keeps the CA in its Secret. Safe for concurrent use; any number of
// replicas may keep the same Secret.
type Keeper struct {
	o       KeeperOptions
	current atomic.Pointer[CA]
}

// NewKeeper makes a Keeper; nothing is read before Ensure.
func NewKeeper(o KeeperOptions) *Keeper {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Keeper{o: o}
}

// CA is what the last Ensure found; nil before the first that succeeded.
func (k *Keeper) CA() *CA { return k.current.Load() }

// Ensure reads the Secret, creates it where it is absent, renews what is due,
// and reports whether CA returns something new. Of replicas that do so at once
// one wins, the others take over what it wrote. It fails, and leaves CA as it
// was, where the Secret cannot be read or written, or holds no usable CA.
func (k *Keeper) Ensure(ctx context.Context) (changed bool, err error) {
	for range 10 {
		var m material
		m, err = k.attempt(ctx)
		if err == nil {
			return k.take(m), nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !errors.Is(err, errGone) {
			break
		}
	}
	return false, fmt.Errorf("cannot keep the certificate authority in Secret %s/%s: %w", k.o.Namespace, SecretName, err)
}

// errGone: the Secret was deleted between two requests.
var errGone = errors.New("deleted meanwhile")

func (k *Keeper) attempt(ctx context.Context) (material, error) {
	secret := &corev1.Secret{}
	err := k.o.Client.Get(ctx, client.ObjectKey{Namespace: k.o.Namespace, Name: SecretName}, secret)
	if apierrors.IsNotFound(err) {
		return k.create(ctx)
	}
	if err != nil {
		return material{}, err
	}
	m, err := decode(secret.Data)
	if err != nil {
		return material{}, fmt.Errorf("it holds no usable one (%w): restore it, or delete it to have a new one made, whereupon gateway pods enrol anew", err)
	}
	changed, err := m.renew(k.o.Now(), k.o.Generate)
	if err != nil || !changed {
		return m, err
	}
	secret.Data = m.encode()
	if err = k.o.Client.Update(ctx, secret); apierrors.IsNotFound(err) {
		err = errGone
	}
	if err == nil {
		k.o.Logger.Info("renewed the certificate authority", "expires", m.ca.NotAfter, "trusted", len(m.trusted), "successor waits", m.next != nil)
	}
	return m, err
}

func (k *Keeper) create(ctx context.Context) (material, error) {
	m, err := newMaterial(k.o.Generate)
	if err != nil {
		return material{}, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: k.o.Namespace, Name: SecretName,
			Labels: map[string]string{"app.kubernetes.io/managed-by": "flexinfer-controller"},
		},
		Type: corev1.SecretTypeTLS,
		Data: m.encode(),
	}
	if err = k.o.Client.Create(ctx, secret); err == nil {
		k.o.Logger.Info("made a certificate authority", "namespace", k.o.Namespace, "secret", SecretName, "expires", m.ca.NotAfter)
	}
	return m, err
}

func (k *Keeper) take(m material) (changed bool) {
	now := &CA{CertPEM: m.current.cert, KeyPEM: m.current.key, BundlePEM: m.bundle()}
	before := k.current.Load()
	if before != nil && bytes.Equal(before.CertPEM, now.CertPEM) && bytes.Equal(before.KeyPEM, now.KeyPEM) && bytes.Equal(before.BundlePEM, now.BundlePEM) {
		return false
	}
	k.current.Store(now)
	return true
}

// Run keeps the CA until ctx ends: changed is called, by Run's goroutine, with
// each new CA, the first included. Failures are logged and tried again.
func (k *Keeper) Run(ctx context.Context, changed func(*CA)) {
	if ca := k.CA(); ca != nil {
		changed(ca)
	}
	for {
		wait := refresh
		took, err := k.Ensure(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			k.o.Logger.Error(err.Error())
			wait = refresh / 12
		case took:
			changed(k.CA())
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
