package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// TestScaleTargetCondition: the scaler's condition stays as long as the Model is
// scaled, and those of strangers stay always.
func TestScaleTargetCondition(t *testing.T) {
	f := func(serverless *v1alpha2.Serverless, want ...string) {
		t.Helper()
		m := &v1alpha2.Model{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
		m.Spec.Serverless = serverless
		m.Status.Conditions = []metav1.Condition{
			{Type: v1alpha2.ConditionScaleTargetReady, Status: metav1.ConditionFalse},
			{Type: "example.com/Warm", Status: metav1.ConditionTrue},
		}
		var got []string
		for _, c := range Translate(Resources{Models: []*v1alpha2.Model{m}}, Options{}).Models[0].Status.Conditions {
			got = append(got, c.Type)
		}
		if diff := cmp.Diff(append(want, "example.com/Warm", v1alpha2.ConditionResolvedRefs, v1alpha2.ConditionRoutingValid, v1alpha2.ConditionNamesValid), got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", serverless, diff)
		}
	}
	no := false
	f(&v1alpha2.Serverless{}, v1alpha2.ConditionScaleTargetReady)
	f(nil)
	f(&v1alpha2.Serverless{Enabled: &no})
}
