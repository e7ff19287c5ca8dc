package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of this package.
const GroupName = "inference.flexinfer.ai"

// The kinds of objects in references.
const (
	KindModel             = "Model"
	KindGatewayParameters = "GatewayParameters"
)

// GroupVersion is the group and version of this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha2"}

// AddToScheme registers the types of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Model{}, &ModelList{}, &GatewayParameters{}, &GatewayParametersList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
