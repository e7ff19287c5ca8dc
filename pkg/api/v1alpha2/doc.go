// Package v1alpha2 holds the API group inference.flexinfer.ai, version
// v1alpha2: the Model that HTTPRoutes name as a backend, and the
// GatewayParameters that say how gateway pods run.
//
// A Model describes one served model: what is served (spec.backend,
// spec.source), where its replicas are (spec.serviceName, spec.port), the names
// clients may use (spec.servedModelName, spec.aliases, spec.serviceLabels) and
// whether it may scale to zero (spec.serverless). How requests are spread over
// its replicas stands in annotations (see annotations.go), since the same
// annotations work on a plain Service.
//
// The schema and its CEL rules refuse what is invalid at admission; files that
// never meet an API server get the same defaults and checks from
// translate.Decode. The gateway reads no field of spec.backend's or
// spec.source's contents, except that backend chooses the usual port where
// nothing else says which; it keeps and shows both.
//
// The status may be shared: another operator may own status.phase, and is then
// obeyed; conditions of types that are not declared here are left alone.
//
// zz_generated.deepcopy.go and the CRDs in manifests/crd are generated from the
// markers in this package; `go generate` renews them and a test compares them.
//
// +kubebuilder:object:generate=true
// +groupName=inference.flexinfer.ai
package v1alpha2

//go:generate go tool -modfile=../../../tools/go.mod controller-gen object crd paths=. output:crd:dir=../../../manifests/crd
