package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadManifests(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("all/b.yaml", "b")
	write("all/a.YML", "a")
	write("all/sub/c.json", "c")
	write("all/notes.txt", "no manifest")
	write("all/.hidden/d.yaml", "hidden")
	write("all/.e.yaml.swp", "hidden")
	link("sub", "all/again")         // the same directory by another name: read once
	link("..", "all/sub/loop")       // a circle
	link("nowhere", "all/f.yaml")    // a broken link
	write("volume/..v1/g.yaml", "g") // as a mounted ConfigMap
	link("..v1", "volume/..data")
	link(filepath.Join("..data", "g.yaml"), "volume/g.yaml")
	write("one.manifest", "one")
	write("empty/readme", "")

	f := func(roots string, wantFiles map[string]string, wantFindings ...string) {
		t.Helper()
		var paths []string
		for _, r := range strings.Fields(roots) {
			paths = append(paths, filepath.Join(dir, r))
		}
		files, findings, _ := readManifests(paths)
		got := map[string]string{}
		for _, file := range files {
			rel, err := filepath.Rel(dir, file.path)
			if err != nil {
				t.Fatal(err)
			}
			got[rel] = string(file.content)
		}
		if diff := cmp.Diff(wantFiles, got); diff != "" {
			t.Errorf("%s: files: %s", roots, diff)
		}
		if len(findings) != len(wantFindings) {
			t.Errorf("%s: findings %v, want %d", roots, findings, len(wantFindings))
			return
		}
		for i, want := range wantFindings {
			if !strings.Contains(findings[i].String(), want) {
				t.Errorf("%s: finding %q, want %q in it", roots, findings[i], want)
			}
		}
	}
	f("all", map[string]string{"all/a.YML": "a", "all/again/c.json": "c", "all/b.yaml": "b"}, "f.yaml: cannot be read")
	f("volume", map[string]string{"volume/g.yaml": "g"})
	f("one.manifest volume/g.yaml volume", map[string]string{"one.manifest": "one", "volume/g.yaml": "g"})
	f("empty", map[string]string{}, "empty: holds no .yaml, .yml or .json file")
	f("missing", map[string]string{}, "missing: does not exist")
}
