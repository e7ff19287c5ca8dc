// Package trust is why the controller and its gateway pods believe each other.
//
//	Secret flexinfer-ca ─ Keeper ─► CA: what signs, and the bundle that pods trust
//	a pod's token ─ Reviewer ─► whose pod it is, by a TokenReview
//
// Any number of replicas keep one Secret: a conflict is settled by reading what
// the other one wrote. A successor is trusted for an hour before it signs, and a
// predecessor until it expires, so that no pod meets a certificate it does not
// know. A CA renewed by one replica is the same, byte for byte, in the others.
//
// Keys and tokens are never logged, nor in an error.
package trust
