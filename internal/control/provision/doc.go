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
// Reconciler is level-triggered like the status writer: Submit replaces what is
// wanted, Run (the leader's) makes it so and keeps it so, Outcomes tells addresses,
// ready pods and errors. It watches what is provisioned through a cache of its
// own, which holds nothing else, and writes only what differs: another desired
// object, or one whose fields somebody took from us, which the API server records
// in managedFields. So an edit is undone at once, and what others add stays.
//
// What is no longer needed is deleted: the autoscaler, or everything where a
// Gateway went to another class. What a Gateway that is gone had is the garbage
// collector's work, and nothing of it is made again: the API server is asked for
// the Gateway before an object that is missing is made. Whatever is not certain
// deletes nothing: a Gateway that is not accepted, or a GatewayClass that is gone,
// leaves pods running as they are.
package provision
