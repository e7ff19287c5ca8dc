package translate

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// finding is one mistake on its way to a condition and a Warning.
type finding struct {
	reason  string // of the condition
	field   string // path of the offending field
	message string // what is wrong and how to mend it
}

func (f finding) String() string {
	if f.field == "" {
		return f.message
	}
	return f.field + ": " + f.message
}

// maxFindings bounds how many findings a condition's message spells out; the
// Warnings have them all.
const maxFindings = 8

// maxDescribed bounds how many members of a group, listeners or ports a message
// names: there may be thousands, and thousands of messages.
const maxDescribed = 16

// describe joins findings into a condition's message.
func describe(found []finding) string {
	parts := make([]string, 0, maxFindings+1)
	for i, f := range found {
		if i == maxFindings {
			parts = append(parts, fmt.Sprintf("and %d more", len(found)-maxFindings))
			break
		}
		parts = append(parts, f.String())
	}
	return strings.Join(parts, "; ")
}

// maxMessage bounds a condition's message, in bytes. The API server takes 32 KiB
// for one, but only some 1.5 MB for an object, and a Gateway may have 64 listeners
// with four conditions each, a route 32 parents: whatever is in the objects, their
// statuses can be written.
const maxMessage = 2048

// clip shortens a message to what a condition may hold. It cuts no character in
// two.
func clip(message string) string {
	const mark = " …"
	if len(message) <= maxMessage {
		return message
	}
	end := maxMessage - len(mark)
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + mark
}

// newCondition is a condition without its transition time, which
// mergeConditions sets.
func newCondition[T, R ~string](kind T, ok bool, reason R, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if ok {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: string(kind), Status: status, Reason: string(reason), Message: clip(message)}
}

// mergeConditions puts the current conditions of an object's generation into
// the list that the object holds. Conditions of types that are not owned stay
// as they are and where they are; an owned type that is not current goes away.
// The transition time moves only with the status. A condition that was written
// for a newer generation than this one is left alone: the input is stale then.
func mergeConditions(held, current []metav1.Condition, owned []string, generation int64, now metav1.Time) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(held)+len(current))
	merged := make(map[string]bool, len(current))
	for _, h := range held {
		i := slices.IndexFunc(current, func(c metav1.Condition) bool { return c.Type == h.Type })
		switch {
		case i >= 0 && !merged[h.Type]:
			merged[h.Type] = true
			out = append(out, renewCondition(h, current[i], generation, now))
		case i < 0 && !slices.Contains(owned, h.Type):
			out = append(out, h)
		}
	}
	for _, c := range current {
		if !merged[c.Type] {
			c.ObservedGeneration = generation
			c.LastTransitionTime = now
			out = append(out, c)
		}
	}
	return out
}

func renewCondition(held, current metav1.Condition, generation int64, now metav1.Time) metav1.Condition {
	if held.ObservedGeneration > generation {
		return held
	}
	current.ObservedGeneration = generation
	current.LastTransitionTime = held.LastTransitionTime
	if held.Status != current.Status || held.LastTransitionTime.IsZero() {
		current.LastTransitionTime = now
	}
	return current
}
