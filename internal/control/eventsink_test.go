package control

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
)

type failingSink struct {
	record.EventSink
	err error
}

func (s failingSink) Create(*corev1.Event) (*corev1.Event, error) { return nil, s.err }
func (s failingSink) Update(*corev1.Event) (*corev1.Event, error) { return nil, s.err }

// Events of namespaces that are gone or going are no error; others are.
func TestSink(t *testing.T) {
	f := func(err error, gone bool) {
		t.Helper()
		s := sink{failingSink{err: err}}
		for _, write := range []func(*corev1.Event) (*corev1.Event, error){s.Create, s.Update} {
			if e, got := write(&corev1.Event{}); (got == nil) != gone || gone && e == nil {
				t.Errorf("%v: %v %v", err, e, got)
			}
		}
	}
	namespaces, events := schema.GroupResource{Resource: "namespaces"}, schema.GroupResource{Resource: "events"}
	terminating := apierrors.NewForbidden(events, "e", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	f(apierrors.NewNotFound(namespaces, "ns"), true)
	f(terminating, true)
	f(apierrors.NewNotFound(events, "e"), false)
	f(apierrors.NewForbidden(events, "e", errors.New("no")), false)
	f(errors.New("else"), false)
}
