package routing

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Settings are all knobs of a gateway process. The routing ones are Options;
// the others belong to the data plane.
type Settings struct {
	Options
	// MaxQueueSize bounds the requests that wait for one cold Model.
	MaxQueueSize int
	// QueueTimeout bounds a request's wait in that queue, ColdStartTimeout the
	// time until the Model has a replica, where the Model sets none.
	QueueTimeout     time.Duration
	ColdStartTimeout time.Duration
	// GracefulShutdownTimeout bounds how long running exchanges may go on after
	// SIGTERM, ShutdownDrainDelay is the time before new ones are refused.
	GracefulShutdownTimeout time.Duration
	ShutdownDrainDelay      time.Duration
}

// Knob declares one setting: its environment variable, flag and Helm value mean
// the same.
type Knob struct {
	Env     string
	Flag    string // without dashes
	Helm    string // path in values.yaml
	Default string
	Unit    string
	Help    string
	// set parses a value. An error means the default holds and a Warning says
	// so, unless fatal.
	set   func(*Settings, string) error
	fatal bool
}

// Warning says that a setting was not usable and its default holds.
type Warning struct{ Name, Value, Reason string }

func (w Warning) String() string {
	return fmt.Sprintf("%s=%q %s; the default holds", w.Name, w.Value, w.Reason)
}

// SettingError says that a setting without a usable default for it is wrong.
type SettingError struct{ Name, Reason string }

func (e *SettingError) Error() string { return e.Name + ": " + e.Reason }

// Knobs is the one place where each setting is declared, in the order of the
// documentation. Callers must not change it.
func Knobs() []Knob { return knobs }

var knobs = []Knob{
	positiveKnob("PROXY_ROUTING_EXPLICIT_KEY_MAX_LENGTH", "routing-explicit-key-max-length", "proxy.routing.explicitKeyMaxLength",
		DefaultExplicitKeyMaxLength, "bytes", "longest explicit cache key; longer ones are malformed",
		func(s *Settings) *int { return &s.Keys.ExplicitKeyMaxLength }),
	positiveKnob("PROXY_ROUTING_SYSTEM_SEGMENT_MAX_LENGTH", "routing-system-segment-max-length", "proxy.routing.systemSegmentMaxLength",
		DefaultSystemSegmentMaxLength, "bytes", "how much of each system text, and of the body field prefix, takes part in a prefix key",
		func(s *Settings) *int { return &s.Keys.SystemSegmentMaxLength }),
	positiveKnob("PROXY_ROUTING_DOCUMENT_SEGMENT_MAX_LENGTH", "routing-document-segment-max-length", "proxy.routing.documentSegmentMaxLength",
		DefaultDocumentSegmentMaxLength, "bytes", "how much of the document context takes part in a prefix key",
		func(s *Settings) *int { return &s.Keys.DocumentSegmentMaxLength }),
	{
		Env: "PROXY_ROUTING_SESSION_HEADERS", Flag: "routing-session-headers", Helm: "proxy.routing.sessionHeaders",
		Default: DefaultSessionHeaders, Unit: "comma list",
		Help: "further headers that carry a session, in the order they are tried; empty: none",
		set: func(s *Settings, v string) error {
			s.Keys.SessionHeaders = ParseSessionHeaders(v)
			return nil
		},
	},
	{
		Env: "FLEXINFER_PROXY_LABEL_GROUP_ROUTING", Flag: "label-group-routing", Helm: "proxy.routing.labelGroupMode",
		Default: ModeRoundRobin.String(), Unit: "one of " + strings.Join(modeNames[:], ", "),
		Help: "how a shared service label picks the Model", fatal: true,
		set: func(s *Settings, v string) (err error) {
			s.LabelGroupMode, err = ParseMode(v)
			return err
		},
	},
	durationKnob("PROXY_LEAST_LOADED_RESERVATION_TTL", "least-loaded-reservation-ttl", "proxy.routing.leastLoadedReservationTTL",
		DefaultReservationTTL, true, "how long a least-loaded pick counts as load before its exchange starts; 0 keeps no reservations",
		func(s *Settings) *time.Duration { return &s.ReservationTTL }),
	positiveKnob("PROXY_ROUTING_VIRTUAL_NODES", "routing-virtual-nodes", "proxy.routing.virtualNodes",
		DefaultVirtualNodes, "points", "ring points of a replica; must be the same on every gateway replica",
		func(s *Settings) *int { return &s.VirtualNodes }),
	positiveKnob("PROXY_ROUTING_KEY_CARDINALITY_LIMIT", "routing-key-cardinality-limit", "proxy.routing.keyCardinalityLimit",
		DefaultCardinalityLimit, "keys", "distinct keys counted per Model, strategy and key source",
		func(s *Settings) *int { return &s.CardinalityLimit }),
	positiveKnob("PROXY_MAX_QUEUE_SIZE", "max-queue-size", "proxy.maxQueueSize",
		100, "requests", "requests that may wait for one cold Model",
		func(s *Settings) *int { return &s.MaxQueueSize }),
	durationKnob("PROXY_QUEUE_TIMEOUT", "queue-timeout", "proxy.queueTimeout",
		time.Minute, false, "how long a request may wait in the queue of a cold Model",
		func(s *Settings) *time.Duration { return &s.QueueTimeout }),
	durationKnob("PROXY_COLD_START_TIMEOUT", "cold-start-timeout", "proxy.coldStartTimeout",
		time.Minute, false, "how long a cold Model may take to get a ready replica; a Model's own coldStartTimeout wins",
		func(s *Settings) *time.Duration { return &s.ColdStartTimeout }),
	durationKnob("PROXY_GRACEFUL_SHUTDOWN_TIMEOUT", "graceful-shutdown-timeout", "proxy.gracefulShutdownTimeout",
		30*time.Second, false, "how long running exchanges may go on after SIGTERM and the drain delay",
		func(s *Settings) *time.Duration { return &s.GracefulShutdownTimeout }),
	durationKnob("PROXY_SHUTDOWN_DRAIN_DELAY", "shutdown-drain-delay", "proxy.shutdownDrainDelay",
		5*time.Second, true, "how long new connections are still taken after SIGTERM, while the gateway is reported not ready",
		func(s *Settings) *time.Duration { return &s.ShutdownDrainDelay }),
}

func positiveKnob(env, flagName, helm string, def int, unit, help string, field func(*Settings) *int) Knob {
	return Knob{
		Env: env, Flag: flagName, Helm: helm, Default: strconv.Itoa(def), Unit: unit, Help: help,
		set: func(s *Settings, v string) error {
			n, err := strconv.ParseInt(v, 10, 32)
			switch {
			case err != nil:
				return fmt.Errorf("is no whole number of %s", unit)
			case n <= 0:
				return fmt.Errorf("is not positive")
			}
			*field(s) = int(n)
			return nil
		},
	}
}

func durationKnob(env, flagName, helm string, def time.Duration, zero bool, help string, field func(*Settings) *time.Duration) Knob {
	return Knob{
		Env: env, Flag: flagName, Helm: helm, Default: shortDuration(def), Unit: "Go duration", Help: help,
		set: func(s *Settings, v string) error {
			d, err := time.ParseDuration(v)
			switch {
			case err != nil:
				return fmt.Errorf("is no duration like 10s or 1m30s")
			case d < 0:
				return fmt.Errorf("is negative")
			case d == 0 && !zero:
				return fmt.Errorf("is not positive")
			}
			*field(s) = d
			return nil
		},
	}
}

// shortDuration spells 1m0s as 1m.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}

// ParseSettings reads all knobs through lookupEnv (os.LookupEnv, or the Lookup of
// KnobFlags over it). White space around a value goes. A value that is unset, or empty
// where that means nothing, is the default; one that does not parse is the
// default with a Warning. An unknown label-group mode is a *SettingError that lists
// the modes. Warnings and errors name the variable; KnobFlags knows who set it.
func ParseSettings(lookupEnv func(string) (string, bool)) (Settings, []Warning, error) {
	var s Settings
	var warnings []Warning
	for _, k := range knobs {
		if err := k.set(&s, k.Default); err != nil {
			panic("BUG: default of " + k.Env + " " + err.Error())
		}
		v, given := lookupEnv(k.Env)
		v = strings.TrimSpace(v)
		if !given || v == "" && k.Env != "PROXY_ROUTING_SESSION_HEADERS" {
			continue
		}
		err := k.set(&s, v)
		switch {
		case err == nil:
		case k.fatal:
			return Settings{}, nil, &SettingError{k.Env, err.Error()}
		default:
			warnings = append(warnings, Warning{k.Env, v, err.Error()})
		}
	}
	return s, warnings, nil
}

// DefaultSettings are the Settings in which every knob has its default.
func DefaultSettings() Settings {
	s, _, _ := ParseSettings(func(string) (string, bool) { return "", false })
	return s
}

// KnobFlags are the flags of all knobs, over the environment.
type KnobFlags struct {
	set       *flag.FlagSet
	lookupEnv func(string) (string, bool)
	values    map[string]*string // by variable
	names     map[string]string  // flags by variable
}

// BindKnobs declares a flag for every knob on set. A flag that is given wins over
// lookupEnv. Use the result after set was parsed.
func BindKnobs(set *flag.FlagSet, lookupEnv func(string) (string, bool)) *KnobFlags {
	f := &KnobFlags{set, lookupEnv, make(map[string]*string, len(knobs)), make(map[string]string, len(knobs))}
	for _, k := range knobs {
		f.values[k.Env] = set.String(k.Flag, k.Default, fmt.Sprintf("%s (%s; environment %s)", k.Help, k.Unit, k.Env))
		f.names[k.Env] = k.Flag
	}
	return f
}

func (f *KnobFlags) given(env string) (given bool) {
	f.set.Visit(func(x *flag.Flag) { given = given || x.Name == f.names[env] })
	return given
}

// Lookup is the value of the knob with that variable, for ParseSettings.
func (f *KnobFlags) Lookup(env string) (string, bool) {
	if f.given(env) {
		return *f.values[env], true
	}
	return f.lookupEnv(env)
}

// Source names where the knob with that variable was set: the flag that was
// given, with its dashes, or the variable.
func (f *KnobFlags) Source(env string) string {
	if f.given(env) {
		return "--" + f.names[env]
	}
	return env
}
