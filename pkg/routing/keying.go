package routing

import (
	"slices"
	"strings"
)

// The defaults of KeyOptions, lengths in bytes of UTF-8.
const (
	DefaultExplicitKeyMaxLength     = 128
	DefaultSystemSegmentMaxLength   = 512
	DefaultDocumentSegmentMaxLength = 256
	DefaultSessionHeaders           = "X-Claude-Code-Session-Id, Session-Id, Session_Id, Thread-Id, X-Session-Affinity, X-Opencode-Session"
)

// KeyOptions are the operator's settings for routing keys. They are read on
// every request and never change once requests run. Every gateway replica must
// have the same ones, or replicas disagree about keys.
type KeyOptions struct {
	ExplicitKeyMaxLength     int // longest explicit cache key
	SystemSegmentMaxLength   int // cut of each system text, and of the body field prefix
	DocumentSegmentMaxLength int // cut of the document text
	// SessionHeaders are the further session headers in order, each as
	// CanonicalHeaderName gives it. Empty: none.
	SessionHeaders []string
}

// DefaultKeyOptions returns the settings of a process that was given none.
func DefaultKeyOptions() KeyOptions {
	return KeyOptions{SessionHeaders: ParseSessionHeaders(DefaultSessionHeaders)}.WithDefaults()
}

// WithDefaults returns o with every length that is not positive replaced by its
// default. SessionHeaders stay: an empty list is a choice.
func (o KeyOptions) WithDefaults() KeyOptions {
	if o.ExplicitKeyMaxLength <= 0 {
		o.ExplicitKeyMaxLength = DefaultExplicitKeyMaxLength
	}
	if o.SystemSegmentMaxLength <= 0 {
		o.SystemSegmentMaxLength = DefaultSystemSegmentMaxLength
	}
	if o.DocumentSegmentMaxLength <= 0 {
		o.DocumentSegmentMaxLength = DefaultDocumentSegmentMaxLength
	}
	return o
}

// ParseSessionHeaders splits a comma list of header names: white space around
// names goes, names become canonical, repeated and empty ones drop out.
func ParseSessionHeaders(list string) []string {
	var names []string
	for field := range strings.SplitSeq(list, ",") {
		name := CanonicalHeaderName(strings.TrimSpace(field))
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
