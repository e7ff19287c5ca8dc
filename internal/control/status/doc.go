// Package status writes the statuses that translation asks for, the leader's
// work.
//
//	translate.Resources ┐
//	translate.Result    ┴ Diff ─► []Update ─ Writer.Submit ─► one PUT of the status subresource each
//
// Diff finds the objects whose status is not as it should be. Merging with what
// others wrote has been done by translate, from the very object that the update
// carries; its resourceVersion makes the API server refuse the update if anybody
// has written since. Then nothing is forced: the change that came between makes
// the caller translate again, from the fresh object (Options.Again asks for it
// in case the news are late). An update made from the very object that was
// written last is not tried: it could only conflict.
//
// Submit is level-triggered: every call replaces what was still to be written.
// Different objects are written concurrently, up to a bound, one object by one
// goroutine at a time. Namespaces take turns, and who has waited longest goes first
// (queue.go): nobody's objects keep another's statuses from being written.
//
// Writing can never become a loop (guard.go). A status that the API server keeps
// otherwise than it was written (a CRD too old for a field) is not written again
// until something changes. A status that somebody else keeps changing back is
// written again at growing intervals, and no object is written more often than
// once in a second for long.
package status
