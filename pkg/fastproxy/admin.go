package fastproxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// admin is the operator's port: metrics, health, the live configuration without
// its secrets, profiles where they are switched on. It speaks plain HTTP and
// belongs on an address that clients do not reach.
type admin struct {
	server   *Server
	listener net.Listener
	http     *http.Server
}

const (
	adminHeaderTimeout = 10 * time.Second
	adminIdleTimeout   = 2 * time.Minute
	adminCloseTimeout  = 2 * time.Second
)

// newAdmin listens on address and serves in goroutines of its own until close.
func newAdmin(s *Server, address string) (*admin, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	a := &admin{server: s, listener: l}
	a.http = &http.Server{
		Handler:           a.handler(),
		ReadHeaderTimeout: adminHeaderTimeout,
		IdleTimeout:       adminIdleTimeout,
		ErrorLog:          slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := a.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.options.Logger.Error("the admin port has failed: metrics and health are gone until a restart", "error", err)
		}
	}()
	return a, nil
}

func (a *admin) addr() net.Addr { return a.listener.Addr() }

// close ends the port; scrapes that run get a moment to end.
func (a *admin) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), adminCloseTimeout)
	defer cancel()
	if err := a.http.Shutdown(ctx); err != nil {
		return a.http.Close()
	}
	return nil
}

func (a *admin) handler() http.Handler {
	registry := a.server.metrics.registry
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(a.server.options.Logger.Handler(), slog.LevelError),
		Registry: registry,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answerText(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", a.ready)
	mux.HandleFunc("GET /debug/config", a.config)
	if a.server.options.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// ready says whether traffic may be sent here: not before the first Snapshot,
// not from the moment a drain begins.
func (a *admin) ready(w http.ResponseWriter, _ *http.Request) {
	switch {
	case a.server.draining.Load():
		answerText(w, http.StatusServiceUnavailable, "draining")
	case a.server.snapshot() == nil:
		answerText(w, http.StatusServiceUnavailable, "no configuration yet")
	default:
		answerText(w, http.StatusOK, "ok")
	}
}

func answerText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}
