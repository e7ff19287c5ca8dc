package enginesim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"
)

// Engine is one simulated engine. It is an http.Handler, and a server of its own
// after Start. Everything about connections (header order in /echo, idle closing,
// connection counts) needs Start.
type Engine struct {
	options Options
	invalid error // what Options.Validate found, reported by Start
	routes  map[string]endpoint

	cache       *prefixCache
	slots       chan struct{} // one entry per running request
	prefillTurn chan struct{} // one entry while a prompt is computed
	waiting     atomic.Int64
	running     atomic.Int64
	responses   responseStore

	ledger  ledger
	faults  faultState
	metrics *metrics
	conns   connSet
	name    atomic.Pointer[string]
	ids     atomic.Uint64

	server   *http.Server
	mu       sync.Mutex // guards what follows
	listener net.Listener
	served   chan struct{} // closed when the accept loop has ended
}

// New makes an engine. Options that Validate refuses are reported by Start; an
// Engine that is only mounted as a handler runs with defaults in their place.
func New(options Options) *Engine {
	e := &Engine{invalid: options.Validate(), options: options.withDefaults()}
	e.cache = newPrefixCache(e.options.CacheBlocks)
	e.slots = make(chan struct{}, e.options.MaxNumSeqs)
	e.prefillTurn = make(chan struct{}, 1)
	e.conns.open = make(map[*engineConn]struct{})
	e.conns.tunnels = make(map[net.Conn]struct{})
	e.conns.idleTimeout = e.options.KeepAliveTimeout
	e.name.Store(&e.options.Name)
	e.metrics = newMetrics(e)
	e.routes = e.endpoints()
	if e.options.Fault.Kind != "" && e.options.Fault.Validate() == nil {
		e.apply(e.options.Fault)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(e.options.HTTP2)
	e.server = &http.Server{
		Handler: e, Protocols: protocols,
		ConnContext: withConn, ConnState: e.conns.onState,
		ReadHeaderTimeout: time.Minute, MaxHeaderBytes: maxRecordedHeader,
	}
	return e
}

// Start listens on addr ("127.0.0.1:0" for any free port) and serves in the
// background until Close or Shutdown. An Engine starts once.
func (e *Engine) Start(addr string) error {
	if e.invalid != nil {
		return fmt.Errorf("cannot start engine: %w", e.invalid)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listener != nil {
		return errors.New("cannot start engine: it was started before; make a new one")
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("cannot start engine: %w", err)
	}
	e.listener, e.served = listener, make(chan struct{})
	if e.options.Name == "" {
		name := listener.Addr().String()
		e.name.Store(&name)
	}
	go func() {
		defer close(e.served)
		_ = e.server.Serve(engineListener{listener}) // ends only by Close or Shutdown
	}()
	return nil
}

// Addr is the address it listens on, "" before Start.
func (e *Engine) Addr() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listener == nil {
		return ""
	}
	return e.listener.Addr().String()
}

// URL is the base of its HTTP addresses, without a slash at the end.
func (e *Engine) URL() string { return "http://" + e.Addr() }

// Name is what the X-Engine header says.
func (e *Engine) Name() string { return *e.name.Load() }

// Close stops listening and closes every connection, at once: running requests
// are cut. WebSocket tunnels end with their connections too.
func (e *Engine) Close() error {
	err := e.server.Close()
	e.conns.closeTunnels()
	e.awaitAcceptLoop()
	return err
}

// Shutdown stops listening and waits for running requests until ctx ends.
func (e *Engine) Shutdown(ctx context.Context) error {
	err := e.server.Shutdown(ctx)
	e.conns.closeTunnels()
	e.awaitAcceptLoop()
	return err
}

func (e *Engine) awaitAcceptLoop() {
	e.mu.Lock()
	served := e.served
	e.mu.Unlock()
	if served != nil {
		<-served
	}
}

// Counters returns what became of the requests so far.
func (e *Engine) Counters() Counters { return e.ledger.snapshot() }

// Cache returns the state of the prefix cache.
func (e *Engine) Cache() CacheStats { return e.cache.stats() }

// Connections returns the counts of client connections.
func (e *Engine) Connections() ConnStats { return e.conns.stats() }

// Load returns the requests that run and those that wait for a slot.
func (e *Engine) Load() (running, waiting int) {
	return int(e.running.Load()), int(e.waiting.Load())
}

// ResetPrefixCache forgets every cached block that no running request uses.
func (e *Engine) ResetPrefixCache() { e.cache.reset() }

// SetFault puts f in force: a request fault replaces the one before it, kind
// idle-close sets the idle time-out, kind none heals both.
func (e *Engine) SetFault(f Fault) error {
	if err := f.Validate(); err != nil {
		return err
	}
	e.apply(f)
	return nil
}

func (e *Engine) apply(f Fault) {
	switch f.Kind {
	case FaultIdleClose:
		millis := f.DurationMillis
		if millis == 0 {
			millis = uvicornKeepAliveMillis
		}
		e.conns.setIdleTimeout(time.Duration(millis) * time.Millisecond)
	case FaultNone:
		e.conns.setIdleTimeout(e.options.KeepAliveTimeout)
		e.faults.set(f)
	default:
		e.faults.set(f)
	}
}

// newID returns an identifier that no other engine of another name gives out.
func (e *Engine) newID(prefix string) string {
	return fmt.Sprintf("%s%08x%08x", prefix, uint32(xxh3.HashString(e.Name())), e.ids.Add(1))
}
