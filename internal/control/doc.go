// Package control is the controller: the loop that keeps gateway pods at what
// the objects of a cluster say.
//
//	watch ─ Changed ─► trigger ─► Resources ─ Translate ─► Result
//	                                                        ├─ Configs ─────► Publisher   every replica
//	                                                        ├─ statuses ────► status.Writer  ┐
//	                                                        ├─ Provisions ──► Provisioner    ├ the leader
//	                                                        ├─ Warnings ────► events         ┘
//	                                                        └─ Models ──────► Scaler
//	gateway pods ─ acknowledgements, refusals ─► fleet ─► trigger, where a verdict changes
//
// A burst of changes becomes one translation: it starts when nothing has changed
// for a short while, and after a firm bound even if changes go on (trigger.go).
// Each round publishes first and hands out the statuses after that; both are
// latest-wins, so neither waits for the other and churn starves none.
//
// Nothing is published before every cache is synced and one whole translation is
// done. A round that panics is reported and counted; what was published stays.
//
// fleet.go decides when a Gateway is programmed: every ready gateway pod, at
// least one, has acknowledged a Config made from the Gateway's present
// generation. A pod that is late does not take that back at once, so a restart
// of the controller or of a pod, or one more route, changes no condition. What
// pods refuse is left out by the next translation as long as it stays as it is.
//
// Every replica translates and publishes. The leader alone writes statuses,
// provisions, scales down and tells events; a Lease says who it is (leader.go).
// A replica that loses it goes on serving snapshots.
//
// Controller wires this to an API server (controller.go). Objects from the
// caches are read only.
package control
