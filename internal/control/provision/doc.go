// Package provision turns accepted Gateways into the objects that serve them,
// and keeps those objects as they should be.
//
// For each Gateway there are, all of one name (Name) in the Gateway's namespace:
// a ServiceAccount, a ConfigMap with the controller's CA certificate, a
// Deployment, a Service, a PodDisruptionBudget and, where the parameters ask for
// it, a HorizontalPodAutoscaler. Desired makes them and is pure: same input, same
// objects. Reconciler applies them by server-side apply and removes what is no
// longer wanted.
//
// Invariants:
//   - The Gateway owns every object, so that the API server removes them with it.
//     An object of the same name that something else made is never taken over.
//   - Ports of listeners are on the Service only: pods bind whatever ports their
//     configuration has, so that a change of listeners restarts no pod.
//   - The ServiceAccount has no role and its pods get no API token; the only
//     token in them is one for the controller.
//   - Pods keep the restricted Pod Security Standard.
//   - Fields that are not ours stay as others set them: replicas where an
//     autoscaler chooses, node ports, restart annotations, what a cloud provider
//     adds to the Service.
//   - Labels of the Gateway's spec.infrastructure and of parameters never take
//     the place of those by which objects are found.
//
// Where the parameters say nothing, defaults.go does. What the API server
// refuses comes back as an error per Gateway, for its status.
//
// Reconciler is used by one goroutine of the leader. It reads through the
// manager's cache and writes only what differs from what it wrote last.
package provision
