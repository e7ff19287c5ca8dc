// Package manifests is a directory of Kubernetes objects, and the tests of them.
//
// base is what `kubectl apply -k manifests/base` installs, crd its part that defines
// Models and GatewayParameters. base/role.yaml and crd are generated from markers in
// internal/control/rbac.go and pkg/api/v1alpha2. examples are for `controller
// standalone`, demo for an installation, images builds images with
// Docker or the like.
package manifests
