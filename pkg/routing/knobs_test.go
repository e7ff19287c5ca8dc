package routing

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseSettings(t *testing.T) {
	parse := func(env map[string]string) (Settings, []Warning, error) {
		return ParseSettings(func(k string) (string, bool) { v, ok := env[k]; return v, ok })
	}
	def, warnings, err := parse(nil)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("defaults: %v, %v", warnings, err)
	}
	want := Settings{
		Options: DefaultOptions(), MaxQueueSize: 100, QueueTimeout: time.Minute, ColdStartTimeout: time.Minute,
		GracefulShutdownTimeout: 30 * time.Second, ShutdownDrainDelay: 5 * time.Second,
	}
	if d := cmp.Diff(want, def); d != "" {
		t.Errorf("defaults: -want +got:\n%s", d)
	}

	f := func(env, value string, warns bool, get func(Settings) any, want any) {
		t.Helper()
		s, warnings, err := parse(map[string]string{env: value})
		if err != nil {
			t.Fatalf("%s=%q: %v", env, value, err)
		}
		if (len(warnings) == 1) != warns {
			t.Errorf("%s=%q: warnings %v", env, value, warnings)
		}
		if d := cmp.Diff(want, get(s)); d != "" {
			t.Errorf("%s=%q: -want +got:\n%s", env, value, d)
		}
	}
	explicit := func(s Settings) any { return s.Keys.ExplicitKeyMaxLength }
	f("PROXY_ROUTING_EXPLICIT_KEY_MAX_LENGTH", " 64 ", false, explicit, 64)
	f("PROXY_ROUTING_EXPLICIT_KEY_MAX_LENGTH", "0", true, explicit, 128)
	f("PROXY_ROUTING_EXPLICIT_KEY_MAX_LENGTH", "-3", true, explicit, 128)
	f("PROXY_ROUTING_EXPLICIT_KEY_MAX_LENGTH", "many", true, explicit, 128)
	f("PROXY_ROUTING_EXPLICIT_KEY_MAX_LENGTH", "", false, explicit, 128)
	f("PROXY_ROUTING_EXPLICIT_KEY_MAX_LENGTH", "99999999999999999999", true, explicit, 128)
	ttl := func(s Settings) any { return s.ReservationTTL }
	f("PROXY_LEAST_LOADED_RESERVATION_TTL", "3s", false, ttl, 3*time.Second)
	f("PROXY_LEAST_LOADED_RESERVATION_TTL", "0", false, ttl, time.Duration(0))
	f("PROXY_LEAST_LOADED_RESERVATION_TTL", "10", true, ttl, 10*time.Second)
	f("PROXY_LEAST_LOADED_RESERVATION_TTL", "-1s", true, ttl, 10*time.Second)
	f("PROXY_QUEUE_TIMEOUT", "0s", true, func(s Settings) any { return s.QueueTimeout }, time.Minute)
	headers := func(s Settings) any { return s.Keys.SessionHeaders }
	f("PROXY_ROUTING_SESSION_HEADERS", "", false, headers, []string(nil))
	f("PROXY_ROUTING_SESSION_HEADERS", "x-my-session, thread-id", false, headers, []string{"X-My-Session", "Thread-Id"})
	f("FLEXINFER_PROXY_LABEL_GROUP_ROUTING", "prefix-session-or-rr", false, func(s Settings) any { return s.LabelGroupMode }, ModePrefixSessionOrRR)

	_, _, err = parse(map[string]string{"FLEXINFER_PROXY_LABEL_GROUP_ROUTING": "fastest"})
	const message = `FLEXINFER_PROXY_LABEL_GROUP_ROUTING: unknown label group mode "fastest": use one of round-robin, least-loaded, prefix, session, prefix-or-rr, session-or-rr, prefix-session-or-rr`
	if err == nil || err.Error() != message {
		t.Errorf("got %v, want %s", err, message)
	}
}

func TestKnobsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Knobs() {
		for _, s := range []string{k.Env, k.Flag, k.Helm} {
			if s == "" || seen[s] {
				t.Errorf("%s: %q is empty or used twice", k.Env, s)
			}
			seen[s] = true
		}
		if k.Default == "" || k.Unit == "" || k.Help == "" {
			t.Errorf("%s lacks a default, unit or help", k.Env)
		}
	}
	for _, env := range []string{
		"PROXY_ROUTING_EXPLICIT_KEY_MAX_LENGTH", "PROXY_ROUTING_SYSTEM_SEGMENT_MAX_LENGTH", "PROXY_ROUTING_DOCUMENT_SEGMENT_MAX_LENGTH",
		"PROXY_LEAST_LOADED_RESERVATION_TTL", "FLEXINFER_PROXY_LABEL_GROUP_ROUTING", "PROXY_ROUTING_SESSION_HEADERS",
		"PROXY_MAX_QUEUE_SIZE", "PROXY_QUEUE_TIMEOUT", "PROXY_COLD_START_TIMEOUT",
		"PROXY_GRACEFUL_SHUTDOWN_TIMEOUT", "PROXY_SHUTDOWN_DRAIN_DELAY",
	} {
		if !seen[env] {
			t.Errorf("%s is not declared", env)
		}
	}
}

func TestKnobFlagsWinOverTheEnvironment(t *testing.T) {
	set := flag.NewFlagSet("gateway", flag.ContinueOnError)
	knobs := BindKnobs(set, func(env string) (string, bool) {
		return map[string]string{"PROXY_MAX_QUEUE_SIZE": "7", "PROXY_QUEUE_TIMEOUT": "7s"}[env], true
	})
	if err := set.Parse([]string{"-max-queue-size", "9", "-routing-session-headers", ""}); err != nil {
		t.Fatal(err)
	}
	s, warnings, err := ParseSettings(knobs.Lookup)
	if err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	if got := fmt.Sprint(s.MaxQueueSize, s.QueueTimeout, len(s.Keys.SessionHeaders)); got != "9 7s 0" {
		t.Errorf("got %s", got)
	}
	if got := knobs.Source("PROXY_MAX_QUEUE_SIZE") + " " + knobs.Source("PROXY_QUEUE_TIMEOUT"); got != "--max-queue-size PROXY_QUEUE_TIMEOUT" {
		t.Errorf("sources %s", got)
	}
}
