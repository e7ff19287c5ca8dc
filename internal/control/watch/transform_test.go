package watch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

func TestStripSlice(t *testing.T) {
	ready := true
	full := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "s-1", Labels: map[string]string{discoveryv1.LabelServiceName: "s", "app": "s"},
			Annotations: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Endpoints: []discoveryv1.Endpoint{
			{
				Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}, NodeName: new("node"), Zone: new("zone"),
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "p", UID: "u"},
			},
			{Addresses: []string{"10.0.0.2"}},
		},
	}
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "s-1", Labels: map[string]string{discoveryv1.LabelServiceName: "s"}},
		Endpoints: []discoveryv1.Endpoint{
			{
				Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "p", UID: "u"},
			},
			{Addresses: []string{"10.0.0.2"}},
		},
	}
	got, err := strip(full)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStripPod(t *testing.T) {
	full := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{ServiceAccountName: "sa", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "True"}, {Type: corev1.PodReady, Status: "True", Message: "m"}},
		},
	}
	got, err := strip(full)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Pod{Namespace: "ns", Name: "p", ServiceAccount: "sa", Ready: true}, gatewayPod(got.(*corev1.Pod))); diff != "" {
		t.Error(diff)
	}
	if p := got.(*corev1.Pod); len(p.Spec.Containers) != 0 || p.Status.PodIP != "" || len(p.Status.Conditions) != 1 {
		t.Errorf("not stripped: %+v", p)
	}
}

// A change of one's own status asks for no hurry; any other change does.
func TestHandler(t *testing.T) {
	var changed, status int
	s := New(Options{Changed: func() { changed++ }, StatusChanged: func() { status++ }})
	f := func(name string, before, after any, wantChanged, wantStatus int) {
		t.Helper()
		changed, status = 0, 0
		handler{s}.OnUpdate(before, after)
		if changed != wantChanged || status != wantStatus {
			t.Errorf("%s: %d changes and %d of statuses, want %d and %d", name, changed, status, wantChanged, wantStatus)
		}
	}
	route := func(version string, generation int64, labels map[string]string) any {
		return routeObject(metav1.ObjectMeta{UID: "u", ResourceVersion: version, Generation: generation, Labels: labels})
	}
	f("a resync", route("1", 1, nil), route("1", 1, nil), 0, 0)
	f("a status", route("1", 1, nil), route("2", 1, nil), 0, 1)
	f("a spec", route("1", 1, nil), route("2", 2, nil), 1, 0)
	f("a label", route("1", 1, nil), route("2", 1, map[string]string{"a": "b"}), 1, 0)
	pod := func(version, address string, ready corev1.ConditionStatus) any {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: version},
			Status:     corev1.PodStatus{PodIP: address, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	f("a pod's address", pod("1", "", "False"), pod("2", "10.0.0.1", "False"), 0, 0)
	f("a pod's readiness", pod("1", "", "False"), pod("2", "", "True"), 1, 0)
}

func routeObject(m metav1.ObjectMeta) *gwapiv1.HTTPRoute { return &gwapiv1.HTTPRoute{ObjectMeta: m} }

// A route that is too large to be served leaves its rules outside, and says how
// large it was; any other keeps its spec.
func TestStripRoute(t *testing.T) {
	f := func(values, valueLength int, annotations map[string]string, wantSize string) {
		t.Helper()
		r := routeObject(metav1.ObjectMeta{
			Namespace: "ns", Name: "r", Generation: 3, ResourceVersion: "7", Annotations: annotations,
			Labels: map[string]string{"a": "b"}, Finalizers: []string{"example.com/f"}, OwnerReferences: []metav1.OwnerReference{{Name: "o"}},
		})
		r.Spec.ParentRefs = []gwapiv1.ParentReference{{Name: "g"}}
		r.Spec.Hostnames = []gwapiv1.Hostname{"a.example.com"}
		r.Spec.Rules = make([]gwapiv1.HTTPRouteRule, 1)
		for range values {
			r.Spec.Rules[0].Matches = append(r.Spec.Rules[0].Matches, gwapiv1.HTTPRouteMatch{
				Headers: []gwapiv1.HTTPHeaderMatch{{Name: "X", Value: strings.Repeat("v", valueLength)}},
			})
		}
		r.Status.Parents = []gwapiv1.RouteParentStatus{{ControllerName: "example.com/other"}}
		want := &gwapiv1.HTTPRoute{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", Generation: 3, ResourceVersion: "7"},
			Spec:       *r.Spec.DeepCopy(), Status: *r.Status.DeepCopy(),
		}
		if wantSize != "" {
			want.Spec.Rules = nil
			want.Annotations = map[string]string{v1alpha2.AnnotationRouteBytes: wantSize}
		}
		for _, times := range []string{"once", "twice"} {
			got, err := strip(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%d values of %d bytes, stripped %s: %.2000s", values, valueLength, times, diff)
			}
		}
	}
	said := func(n string) map[string]string { return map[string]string{v1alpha2.AnnotationRouteBytes: n} }
	f(1, 10, nil, "")
	f(30, 4096, nil, "")
	f(300, 4000, nil, "1211483")
	f(1, 10, said("1000000"), "") // somebody else's word
	f(300, 4000, said("5"), "1211483")
}

// Of annotations only those that steer routing are kept, of every other kind.
func TestStripAnnotations(t *testing.T) {
	f := func(annotations, want map[string]string) {
		t.Helper()
		got, err := strip(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.(*corev1.Service).Annotations); diff != "" {
			t.Error(diff)
		}
	}
	f(nil, nil)
	f(map[string]string{"a": "b", corev1.LastAppliedConfigAnnotation: "{}"}, nil)
	f(map[string]string{"a": "b", "flexinfer.ai/routing": "prefix"}, map[string]string{"flexinfer.ai/routing": "prefix"})
}

// A Model's conditions and counts say what became of it; its phase and when it was
// active last may be said by others.
func TestSameButStatus(t *testing.T) {
	f := func(edit func(*v1alpha2.Model), want bool) {
		t.Helper()
		before := &v1alpha2.Model{ObjectMeta: metav1.ObjectMeta{Name: "m", Generation: 1, ResourceVersion: "1"}}
		after := before.DeepCopy()
		after.ResourceVersion = "2"
		edit(after)
		if got := sameButStatus(before, after); got != want {
			t.Errorf("%v, want %v: %+v", got, want, after)
		}
	}
	f(func(m *v1alpha2.Model) { m.Status.Endpoints = 3 }, true)
	f(func(m *v1alpha2.Model) { m.Status.Conditions = []metav1.Condition{{Type: "Ready"}} }, true)
	f(func(m *v1alpha2.Model) { m.Status.Phase = v1alpha2.PhaseFailed }, false)
	f(func(m *v1alpha2.Model) { m.Status.LastActiveTime = new(metav1.Now()) }, false)
	f(func(m *v1alpha2.Model) { m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "other"}} }, false)
	f(func(m *v1alpha2.Model) { m.Generation = 2 }, false)
	f(func(m *v1alpha2.Model) { m.Annotations = map[string]string{"flexinfer.ai/routing": "prefix"} }, false)
}
