package control

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestAdmin(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	why := "the caches are not synced yet"
	handler := adminHandler(registry, func() string { return why }, false)
	f := func(h http.Handler, path string, code int, body string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != code || !strings.Contains(w.Body.String(), body) {
			t.Errorf("%s: %d %q, want %d and %q", path, w.Code, w.Body.String(), code, body)
		}
	}
	f(handler, "/healthz", 200, "ok")
	f(handler, "/readyz", 503, why)
	why = ""
	f(handler, "/readyz", 200, "ready")
	f(handler, "/metrics", 200, "flexinfer_controller_leader 0")
	f(handler, "/debug/pprof/", 404, "")
	f(adminHandler(registry, func() string { return "" }, true), "/debug/pprof/", 200, "goroutine")
}
