// Package scale lets Models sleep and wakes them: what gateway pods report
// becomes status.lastActiveTime and the replicas of scale targets.
//
//	gateway pods' reports ─┐
//	                       ├─► Machine ─► Actions ─► scale subresource, Model status, events
//	World (API server) ────┘      ▲                          │
//	                              └──────── Outcomes ◄───────┘
//
// Machine is the core: no clock, no client, no goroutine. Scaler is the edge: it
// owns the Machine, carries Actions out and hands their Outcomes back, a few at a
// time, wakes before everything else.
//
// # What is written
//
// The scale subresource, of whichever kind has one, under the resourceVersion
// that was read: an autoscaler's or a user's write in between is a conflict, and
// everything is looked at anew. Of a Model's status two things that nobody else
// writes: lastActiveTime, by a merge patch of that field, and the condition
// ScaleTargetReady, by a server-side apply that owns this entry of the list. So
// package status, which replaces a whole status under its resourceVersion, and
// other operators never lose a write to this package, nor it one to them.
//
// # Waking
//
// A Model with a waiting request is woken: its target goes from 0 to max(1,
// minReplicas). Any other number stays, so repeated demand neither scales up
// nor down. While requests wait, the target is looked at again every few
// seconds, so whoever takes it to 0 in the meantime does not win. Failures are
// said on the Model (condition ScaleTargetReady, an event) and tried again with
// a doubling pause. Waking and lastActiveTime happen wherever the demand
// arrives, on every replica of the controller: both are level-triggered and
// idempotent.
//
// # Sleeping
//
// Only the leader takes replicas away, down to serverless.minReplicas and never
// up, and only when it is certain that nobody misses them:
//
//   - no pod of any Gateway that names the Model has a request that waits or
//     runs, and none had one during a whole idle time;
//   - every such pod that exists has been reporting during that whole time. A
//     pod that was never heard, or is out of touch, may be carrying a request.
//     So a restart of the controller or of a gateway pod starts the time anew;
//   - what a pod said last before it went out of touch holds until it is gone.
//
// A Gateway that stops naming a Model counts for one more idle time, and for as
// long as requests of it run. A target that somebody scales up by hand starts a
// new idle time. Whether a request is work or a poll is the gateway's decision:
// polls are in no report.
//
// Demand that begins or ends is told within seconds, so that an idle time is at
// least five of them, whatever a Model says.
//
// A request may set out in the moment in which its Model is put to sleep. Such
// activity undoes the scale-down at once. The engine that it reaches has been told
// to end: one that answers what it has begun, and goes on taking connections for
// the second that its end takes to be known (a preStop sleep), loses nothing.
// Gateways send nothing more to it then: their requests wait for another replica.
//
// Only Gateways that name a Model are heard about it, so a tenant who runs a
// Gateway cannot wake the Models of others. Who may write a Model may scale the
// workloads of its namespace through it, as with a HorizontalPodAutoscaler.
package scale
