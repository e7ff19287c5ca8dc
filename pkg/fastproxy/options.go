package fastproxy

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"flexinfer.ai/gateway/pkg/routing"
)

// Options are the settings of a data plane process. The zero value of every
// member means its default; New fills them in.
type Options struct {
	// Settings are the knobs that are contract: what routing.ParseSettings
	// returned; the zero value means all defaults.
	Settings routing.Settings
	// BindAddress is the host part that listeners bind to; empty: every address.
	BindAddress string
	// PortOffset is added to every listener port before it is bound, so that an
	// unprivileged pod can serve port 80 on 8080.
	PortOffset int
	// AdminAddress is the "host:port" of the admin port; empty: none.
	AdminAddress string
	// Logger receives everything; nil: nothing is logged.
	Logger *slog.Logger
	// AccessLog logs one line per request at info level.
	AccessLog bool
	// Collectors are served with the server's own metrics.
	Collectors []prometheus.Collector
	// Pprof serves /debug/pprof on the admin port.
	Pprof bool
	// DemandChanged is called when Server.Demand tells something that should not
	// wait for the next look at it: a request has come to an empty cold-start
	// queue, or is the first that a Model works on after an idle time. It is called
	// by the goroutines of requests, also by several at a time, and must not
	// block; nil: nobody is told.
	DemandChanged func()

	Limits   Limits
	Timeouts Timeouts
}

// Limits bound what clients and engines may take. Sizes are bytes.
type Limits struct {
	HeaderBytes   int   // one header block; over it 431
	BodyBytes     int64 // one request body that is read whole, after decoding; over it 413
	BufferedBytes int64 // all bodies read whole together; over it 503
	Connections   int   // client connections; over it they are closed at once
	ConnectionAge time.Duration
	// EndpointConnections bounds the connections to one endpoint; over it
	// requests wait for one as long as a connect may take.
	EndpointConnections int
	// Mirrors bounds the mirrored requests in flight.
	Mirrors int
}

// Timeouts are the time-outs of one exchange, each for itself.
type Timeouts struct {
	Header     time.Duration // client: first byte to the end of its header block
	Body       time.Duration // client: between two reads of its body
	ClientIdle time.Duration // client: between two requests
	WriteStall time.Duration // client: how long it may refuse to read
	Handshake  time.Duration // client: TLS
	Connect    time.Duration // engine: TCP connect
	FirstByte  time.Duration // engine: end of the request to the first byte of the answer
	Idle       time.Duration // engine: between two reads of its answer
	PoolIdle   time.Duration // engine: how long a connection is kept without use; below uvicorn's 5 s
	Tunnel     time.Duration // both: a tunnel without traffic in either direction
}

// The defaults of Limits and Timeouts.
var (
	defaultLimits = Limits{
		HeaderBytes: 64 << 10, BodyBytes: 32 << 20, BufferedBytes: 1 << 30,
		Connections: 65536, ConnectionAge: 0, EndpointConnections: 4096, Mirrors: 64,
	}
	defaultTimeouts = Timeouts{
		Header: 10 * time.Second, Body: 60 * time.Second, ClientIdle: 120 * time.Second,
		WriteStall: 60 * time.Second, Handshake: 10 * time.Second,
		Connect: 2 * time.Second, FirstByte: 600 * time.Second, Idle: 300 * time.Second,
		PoolIdle: 4 * time.Second, Tunnel: time.Hour,
	}
)

// DefaultLimits are what zero members of Limits stand for.
func DefaultLimits() Limits { return defaultLimits }

// DefaultTimeouts are what zero members of Timeouts stand for.
func DefaultTimeouts() Timeouts { return defaultTimeouts }

// withDefaults returns o with every zero member set to its default.
func (o Options) withDefaults() Options {
	if o.Settings.VirtualNodes == 0 {
		o.Settings = routing.DefaultSettings()
	}
	l, t := &o.Limits, &o.Timeouts
	orInt(&l.HeaderBytes, defaultLimits.HeaderBytes)
	orInt(&l.BodyBytes, defaultLimits.BodyBytes)
	orInt(&l.BufferedBytes, defaultLimits.BufferedBytes)
	orInt(&l.Connections, defaultLimits.Connections)
	orInt(&l.EndpointConnections, defaultLimits.EndpointConnections)
	orInt(&l.Mirrors, defaultLimits.Mirrors)
	orInt(&t.Header, defaultTimeouts.Header)
	orInt(&t.Body, defaultTimeouts.Body)
	orInt(&t.ClientIdle, defaultTimeouts.ClientIdle)
	orInt(&t.WriteStall, defaultTimeouts.WriteStall)
	orInt(&t.Handshake, defaultTimeouts.Handshake)
	orInt(&t.Connect, defaultTimeouts.Connect)
	orInt(&t.FirstByte, defaultTimeouts.FirstByte)
	orInt(&t.Idle, defaultTimeouts.Idle)
	orInt(&t.PoolIdle, defaultTimeouts.PoolIdle)
	orInt(&t.Tunnel, defaultTimeouts.Tunnel)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func orInt[T ~int | ~int64](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}
