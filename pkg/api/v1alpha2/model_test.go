package v1alpha2_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

func TestAddToScheme(t *testing.T) {
	s := runtime.NewScheme()
	if err := v1alpha2.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Model", "ModelList"} {
		if !s.Recognizes(v1alpha2.GroupVersion.WithKind(kind)) {
			t.Errorf("the scheme does not know %s", kind)
		}
	}
}

// crd is what the test reads of the generated CRD.
type crd struct {
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind       string   `json:"kind"`
			ShortNames []string `json:"shortNames"`
		} `json:"names"`
		Versions []struct {
			Name         string         `json:"name"`
			Subresources map[string]any `json:"subresources"`
			Schema       struct {
				OpenAPIV3Schema property `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

type property struct {
	Properties map[string]property `json:"properties"`
	Items      *property           `json:"items"`
}

// TestCRDIsCurrent compares the generated CRD with the types: `go generate`
// must follow every change of a field.
func TestCRDIsCurrent(t *testing.T) {
	raw, err := os.ReadFile("../../../manifests/crd/inference.flexinfer.ai_models.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got crd
	if err := yaml.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Spec.Group != v1alpha2.GroupName || got.Spec.Names.Kind != v1alpha2.KindModel {
		t.Errorf("the CRD is of %s/%s", got.Spec.Group, got.Spec.Names.Kind)
	}
	if !slices.Contains(got.Spec.Names.ShortNames, "mdl") {
		t.Errorf("short names %v, want mdl among them", got.Spec.Names.ShortNames)
	}
	if len(got.Spec.Versions) != 1 || got.Spec.Versions[0].Name != v1alpha2.GroupVersion.Version {
		t.Fatalf("versions %+v, want only %s", got.Spec.Versions, v1alpha2.GroupVersion.Version)
	}
	version := got.Spec.Versions[0]
	if _, ok := version.Subresources["status"]; !ok {
		t.Error("the CRD has no status subresource")
	}
	root := version.Schema.OpenAPIV3Schema.Properties
	compareFields(t, "spec", reflect.TypeFor[v1alpha2.ModelSpec](), root["spec"])
	compareFields(t, "status", reflect.TypeFor[v1alpha2.ModelStatus](), root["status"])
}

// compareFields compares the JSON names of a struct, and of its structs of this
// package, with a schema's properties.
func compareFields(t *testing.T, path string, typ reflect.Type, schema property) {
	var want, got []string
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		want = append(want, name)
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner.PkgPath() == typ.PkgPath() {
			compareFields(t, path+"."+name, inner, schema.Properties[name])
		}
	}
	for name := range schema.Properties {
		got = append(got, name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: the CRD's fields differ from the type's; run go generate ./pkg/api/... (-type +crd):\n%s", path, diff)
	}
}

func TestDeepCopySharesNothing(t *testing.T) {
	enabled, wait := true, v1alpha2.Duration("1s")
	m := &v1alpha2.Model{Spec: v1alpha2.ModelSpec{
		ServiceLabels:  []v1alpha2.ServiceLabel{"a"},
		Aliases:        []v1alpha2.ModelName{"b"},
		Serverless:     &v1alpha2.Serverless{Enabled: &enabled, ColdStartTimeout: &wait, WakeMethods: []v1alpha2.WakeMethod{"POST"}},
		ScaleTargetRef: &v1alpha2.ScaleTargetReference{Name: "d"},
	}, Status: v1alpha2.ModelStatus{LastActiveTime: &metav1.Time{}, Conditions: []metav1.Condition{{Type: "X"}}}}
	c := m.DeepCopy()
	if diff := cmp.Diff(m, c); diff != "" {
		t.Fatal(diff)
	}
	c.Spec.ServiceLabels[0], c.Spec.Aliases[0], c.Spec.ScaleTargetRef.Name = "x", "x", "x"
	*c.Spec.Serverless.Enabled, *c.Spec.Serverless.ColdStartTimeout, c.Spec.Serverless.WakeMethods[0] = false, "2s", "PUT"
	c.Status.Conditions[0].Type = "Y"
	if m.Spec.ServiceLabels[0] != "a" || m.Spec.Aliases[0] != "b" || m.Spec.ScaleTargetRef.Name != "d" ||
		!enabled || wait != "1s" || m.Spec.Serverless.WakeMethods[0] != "POST" || m.Status.Conditions[0].Type != "X" {
		t.Errorf("a change of the copy shows in the original: %+v", m)
	}
}
