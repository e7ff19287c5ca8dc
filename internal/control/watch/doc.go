// Package watch keeps the objects that translation needs in one informer cache
// and hands them out as translate.Resources.
//
//	API server ─ list and watch ─► informers (stripped) ─ Resources ─► translate.Resources
//	                                        └─ Changed: something that matters has changed
//
// What is watched stands in kinds.go: everything of the Gateway API that is
// served, Models, GatewayParameters, Services, EndpointSlices, the metadata of
// Namespaces, Secrets of type kubernetes.io/tls and no other, the pods of Gateways
// and no others, and workloads for nothing but the number of replicas that they
// ask for. A workload kind that only
// some Model names (scaleTargetRef) is watched from then on; it delays nothing.
//
// Objects are stripped before they enter the cache (transform.go), so that a big
// cluster's Services, EndpointSlices and Deployments cost little memory. Of
// managedFields only what says who owns a Model's phase is kept.
//
// Changes of objects that nothing refers to are not announced (interest.go): in
// a busy cluster most EndpointSlices have nothing to do with Gateways. What is
// of interest is settled by each Resources call before it reads the Services,
// so no change is lost between two calls.
//
// Nothing here is handed out before every cache is synced. A kind that the API
// server does not know (CRDs not installed) is waited for, with one clear log
// line for each state and Missing for the readiness probe.
//
// The objects handed out are the cache's own: nobody may change them. Start
// runs once; Resources is called by one goroutine, everything else by any.
package watch
