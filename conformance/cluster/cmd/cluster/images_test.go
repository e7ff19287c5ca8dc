package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestImage(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "engine")
	if err := os.WriteFile(program, []byte("code"), 0o600); err != nil {
		t.Fatal(err)
	}
	build := func() image {
		i := image{program: program, names: []string{"example.com/engine:v1", "example.com/engine:v2"}}
		if err := i.build(dir); err != nil {
			t.Fatal(err)
		}
		return i
	}
	first := build()
	if again := build(); again.digest != first.digest {
		t.Errorf("the same program makes %s and %s", first.digest, again.digest)
	}
	for _, text := range first.names {
		tag, err := name.NewTag(text)
		if err != nil {
			t.Fatal(err)
		}
		built, err := tarball.ImageFromPath(first.archive, &tag)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		config, err := built.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.User != "65532:65532" || !cmp.Equal(config.Config.Entrypoint, []string{"/engine"}) {
			t.Errorf("%s: user %q, entrypoint %q", text, config.Config.User, config.Config.Entrypoint)
		}
		content := mutate.Extract(built)
		defer content.Close()
		want := map[string]int64{"tmp": 0o1777, "etc": 0o755, "engine": 0o755}
		if diff := cmp.Diff(want, modes(t, content)); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", text, diff)
		}
	}
	if err := os.WriteFile(program, []byte("other code"), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed := build(); changed.digest == first.digest {
		t.Error("another program has the same digest: it would not be loaded")
	}
}

func modes(t *testing.T, content io.Reader) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Clean(header.Name)] = header.Mode
	}
}

// TestLoadElsewhere has kubectl and kind played by scripts: what is loaded where.
func TestLoadElsewhere(t *testing.T) {
	f := func(clusterContext, want string) {
		t.Helper()
		dir := t.TempDir()
		for name, script := range map[string]string{
			"kubectl": "#!/bin/sh\necho " + clusterContext + "\n",
			"kind":    "#!/bin/sh\necho \"$@\" >>" + dir + "/loaded\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir)
		var out strings.Builder
		if err := loadElsewhere(t.Context(), []image{{names: []string{"a:1"}, archive: "a.tar"}, {names: []string{"b:1"}, archive: "b.tar"}}, &out); err != nil {
			t.Fatal(err)
		}
		loaded, _ := os.ReadFile(filepath.Join(dir, "loaded"))
		if diff := cmp.Diff(want, out.String()+string(loaded)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", clusterContext, diff)
		}
	}
	f("kind-lab", "loaded a:1\nloaded b:1\nload image-archive --name lab a.tar\nload image-archive --name lab b.tar\n")
	f("elsewhere", "the cluster is not made by kind: its nodes must hold a:1, of a.tar\n"+
		"the cluster is not made by kind: its nodes must hold b:1, of b.tar\n")
}
