package dataplane

import (
	"errors"
	"flag"
	"log/slog"
	"net"
	"strconv"
	"time"

	"flexinfer.ai/gateway/internal/cli"
	"flexinfer.ai/gateway/pkg/fastproxy"
	"flexinfer.ai/gateway/pkg/routing"
)

// DefaultAdminAddress is where metrics and health are served unless told otherwise.
const DefaultAdminAddress = "127.0.0.1:8090"

// Flags are the command-line settings of a data plane.
type Flags struct {
	Log cli.LogOptions

	options fastproxy.Options
	knobs   *routing.KnobFlags
}

// Bind declares the flags. env is where knobs without a flag are looked up.
func (f *Flags) Bind(flags *flag.FlagSet, env cli.Env) {
	f.Log.Bind(flags)
	f.knobs = routing.BindKnobs(flags, env.Lookup)
	o := &f.options
	flags.StringVar(&o.BindAddress, "bind", "", "`ADDRESS` that listeners are bound to; empty: every address of the machine")
	flags.IntVar(&o.PortOffset, "port-offset", 0, "`NUMBER` added to every listener's port before it is bound, so that port 80 needs no privilege")
	flags.StringVar(&o.AdminAddress, "admin", DefaultAdminAddress, "`HOST:PORT` of /metrics, /healthz, /readyz and /debug/config; empty: none")
	flags.BoolVar(&o.AccessLog, "access-log", false, "log one line per request at level info")
	flags.BoolVar(&o.Pprof, "pprof", false, "serve /debug/pprof on the admin address")
	bindLimits(flags, &o.Limits)
	bindTimeouts(flags, &o.Timeouts)
}

func bindLimits(flags *flag.FlagSet, l *fastproxy.Limits) {
	*l = fastproxy.DefaultLimits()
	flags.IntVar(&l.HeaderBytes, "max-header-bytes", l.HeaderBytes, "`BYTES` of a request's header block; more is answered with 431")
	flags.Int64Var(&l.BodyBytes, "max-body-bytes", l.BodyBytes, "`BYTES` of a request body that must be read whole, after decoding; more is answered with 413")
	flags.Int64Var(&l.BufferedBytes, "max-buffered-bytes", l.BufferedBytes, "`BYTES` of all bodies read whole together; over it requests are answered with 503")
	flags.IntVar(&l.Connections, "max-connections", l.Connections, "`NUMBER` of client connections; more are closed at once")
	flags.DurationVar(&l.ConnectionAge, "max-connection-age", l.ConnectionAge, "`DURATION` after which a client connection is ended between requests; 0: never")
	flags.IntVar(&l.EndpointConnections, "max-endpoint-connections", l.EndpointConnections, "`NUMBER` of connections to one replica")
	flags.IntVar(&l.Mirrors, "max-mirrors", l.Mirrors, "`NUMBER` of mirrored requests in flight; more are not mirrored")
}

func bindTimeouts(flags *flag.FlagSet, t *fastproxy.Timeouts) {
	*t = fastproxy.DefaultTimeouts()
	for _, d := range []struct {
		value      *time.Duration
		name, what string
	}{
		{&t.Header, "header-timeout", "for a client's header block, from its first byte"},
		{&t.Body, "body-timeout", "between two reads of a client's body"},
		{&t.ClientIdle, "client-idle-timeout", "between two requests on a client connection"},
		{&t.WriteStall, "write-stall-timeout", "that a client may refuse to read its answer"},
		{&t.Handshake, "handshake-timeout", "for a client's TLS handshake"},
		{&t.Connect, "connect-timeout", "for a connect to a replica"},
		{&t.FirstByte, "first-byte-timeout", "from the end of a request to the first byte of its answer"},
		{&t.Idle, "idle-timeout", "between two reads of a replica's answer"},
		{&t.PoolIdle, "pool-idle-timeout", "that an unused connection to a replica is kept; keep it below the engine's own, 5s with uvicorn"},
		{&t.Tunnel, "tunnel-timeout", "that a WebSocket may be silent"},
	} {
		flags.DurationVar(d.value, d.name, *d.value, "`DURATION` "+d.what)
	}
}

// Options returns what the flags and the environment say, for a server that
// logs to logger. The error is a cli.UsageError that names the flag.
func (f *Flags) Options(logger *slog.Logger) (fastproxy.Options, error) {
	o := f.options
	settings, warnings, err := routing.ParseSettings(f.knobs.Lookup)
	if wrong := (*routing.SettingError)(nil); errors.As(err, &wrong) {
		return o, cli.Usagef("%s: %s", f.knobs.Source(wrong.Name), wrong.Reason)
	} else if err != nil {
		return o, cli.UsageError(err.Error())
	}
	for _, w := range warnings {
		logger.Warn("setting not usable", "name", f.knobs.Source(w.Name), "value", w.Value, "reason", w.Reason+"; the default holds")
	}
	o.Settings, o.Logger = settings, logger
	if err := checkHostPort("admin", o.AdminAddress); err != nil {
		return o, err
	}
	if o.BindAddress != "" && net.ParseIP(o.BindAddress) == nil {
		return o, cli.Usagef("flag --bind: %q is no IP address; give one of the machine's, such as 127.0.0.1", o.BindAddress)
	}
	if o.PortOffset < -65534 || o.PortOffset > 65534 {
		return o, cli.Usagef("flag --port-offset: %d leaves no valid port; give a number such as 8000", o.PortOffset)
	}
	return o, nil
}

func checkHostPort(name, address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return cli.Usagef("flag --%s: %q is no HOST:PORT (%v); give one such as %s", name, address, err, DefaultAdminAddress)
	}
	return nil
}
