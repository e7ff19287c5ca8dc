package control

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
)

// sink writes events to the API server. One that comes when its namespace has gone,
// or is going, has nobody left to read it, so it is dropped without a word.
type sink struct{ record.EventSink }

// Create writes a new event.
func (s sink) Create(e *corev1.Event) (*corev1.Event, error) {
	written, err := s.EventSink.Create(e)
	return orGone(e, written, err)
}

// Update writes an event that was there.
func (s sink) Update(e *corev1.Event) (*corev1.Event, error) {
	written, err := s.EventSink.Update(e)
	return orGone(e, written, err)
}

func orGone(e, written *corev1.Event, err error) (*corev1.Event, error) {
	if isNamespaceGone(err) {
		return e, nil
	}
	return written, err
}

// isNamespaceGone reports whether something cannot be made because the namespace
// that it would be in has gone or is going.
func isNamespaceGone(err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return true
	}
	status, ok := err.(apierrors.APIStatus) //nolint:errorlint // client-go wraps none
	return ok && apierrors.IsNotFound(err) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}
