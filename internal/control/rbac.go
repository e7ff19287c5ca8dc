package control

// What the controller may do, and where each right is used. manifests/base/role.yaml
// is generated from these markers (`go generate ./internal/control`), and a test of
// package manifests compares the two. RBAC knows no selectors: Secrets are watched
// by type and pods by label, but the right to read them is one to read all.
//
// Package watch, and provision's own cache:
//
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gatewayclasses;gateways;httproutes;referencegrants,verbs=list;watch
// +kubebuilder:rbac:groups=inference.flexinfer.ai,resources=models;gatewayparameters,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces;pods;secrets;services;serviceaccounts;configmaps,verbs=list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=list;watch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=list;watch
//
// Packages status and scale:
//
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gatewayclasses/status;gateways/status;httproutes/status,verbs=update
// +kubebuilder:rbac:groups=inference.flexinfer.ai,resources=models/status,verbs=update;patch
//
// Package provision: get to see whose an object is before it is applied, patch and
// create to apply it, delete for what is no longer needed.
//
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts;configmaps,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;create;patch;delete
//
// Package scale: other kinds are let in by a ClusterRole of the cluster's
// administrator, which is aggregated (manifests/base/scale.yaml).
//
// +kubebuilder:rbac:groups=apps,resources=deployments/scale;statefulsets/scale,verbs=get;update
//
// Package trust: TokenReviews, and in the controller's own namespace its one Secret.
// A right to create cannot name what is created.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups="",namespace=flexinfer-system,resources=secrets,resourceNames=flexinfer-ca,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=flexinfer-system,resources=secrets,verbs=create
//
// This package: events, and the leader's Lease in the controller's namespace.
//
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=flexinfer-system,resources=leases,resourceNames=flexinfer-controller,verbs=get;update
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=flexinfer-system,resources=leases,verbs=create

//go:generate go tool -modfile=../../tools/go.mod controller-gen rbac:roleName=flexinfer-controller paths=. output:rbac:dir=../../manifests/base
