package routing

import (
	"fmt"
	"strings"
)

// Mode is how a label group picks its member.
type Mode uint8

// The label-group modes. The keyed ones use a consistent ring over the members
// and go round-robin where a request has no key; the "-or-rr" spellings say the
// same aloud.
const (
	ModeRoundRobin Mode = iota
	ModeLeastLoaded
	ModePrefix
	ModeSession
	ModePrefixOrRR
	ModeSessionOrRR
	ModePrefixSessionOrRR

	numModes = iota
)

var modeNames = [numModes]string{
	ModeRoundRobin:        "round-robin",
	ModeLeastLoaded:       "least-loaded",
	ModePrefix:            "prefix",
	ModeSession:           "session",
	ModePrefixOrRR:        "prefix-or-rr",
	ModeSessionOrRR:       "session-or-rr",
	ModePrefixSessionOrRR: "prefix-session-or-rr",
}

// String is the mode's spelling in settings and in the metric label `strategy`.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "unknown"
}

// ParseMode reads a mode's spelling. The error lists the ones there are.
func ParseMode(s string) (Mode, error) {
	for m, name := range modeNames {
		if s == name {
			return Mode(m), nil
		}
	}
	return ModeRoundRobin, fmt.Errorf("unknown label group mode %q: use one of %s", s, strings.Join(modeNames[:], ", "))
}

// usesPrefix and usesSession say which keys a mode looks for.
func (m Mode) usesPrefix() bool {
	return m == ModePrefix || m == ModePrefixOrRR || m == ModePrefixSessionOrRR
}

func (m Mode) usesSession() bool {
	return m == ModeSession || m == ModeSessionOrRR || m == ModePrefixSessionOrRR
}
