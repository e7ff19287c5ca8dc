package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of this package.
const GroupName = "inference.flexinfer.ai"

// KindModel is the kind of Model objects in references.
const KindModel = "Model"

// GroupVersion is the group and version of this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha2"}

// AddToScheme registers the types of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Model{}, &ModelList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
