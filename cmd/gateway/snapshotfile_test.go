package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flexinfer.ai/gateway/pkg/routing"
)

func TestReadSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot.json")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := &routing.Config{
		Generation: 7,
		Listeners:  []routing.Listener{{Key: "ns/g/https", Port: 443, Protocol: routing.ProtocolHTTPS, Certificates: []string{"Secret/ns/tls"}}},
		Routes: []routing.Route{{Key: "HTTPRoute/ns/r", Rules: []routing.Rule{{
			RequestTimeout: 1500 * time.Millisecond,
			Filters:        []routing.Filter{{CORS: &routing.CORSFilter{AllowOrigins: []string{"*"}}}},
			Retry:          &routing.Retry{Attempts: 2, Codes: []int{503}},
		}}}},
		Certificates: []routing.Certificate{{Key: "Secret/ns/tls", CertPEM: []byte("leaf"), KeyPEM: []byte("key")}},
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	write(string(b))
	got, err := readSnapshot(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("a Config does not survive the file:", diff)
	}

	f := func(content, wantErr string) {
		t.Helper()
		write(content)
		if _, err := readSnapshot(path); err == nil || !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%q: error %v, want %q in it", content, err, wantErr)
		}
	}
	f(``, "cannot parse snapshot "+path)
	f(`{"Routes": [`, "cannot parse snapshot")
	f(`{"Paths": []}`, `unknown field "Paths"`)
	f(`{} {}`, "more than one JSON value")
	if _, err := readSnapshot(path + ".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
