package control

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"flexinfer.ai/gateway/internal/control/provision"
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
	if provision.NamespaceGone(err) {
		return e, nil
	}
	return written, err
}
