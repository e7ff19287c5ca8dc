package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// watched starts a Watch on root and returns a function that waits until look
// holds, which is asked once per call only.
func watched(t *testing.T, root string) (waitUntil func(what string, look func() bool)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	calls, done := make(chan struct{}, 1024), make(chan struct{})
	go func() {
		defer close(done)
		o := Options{Quiet: 20 * time.Millisecond, Bound: 200 * time.Millisecond, Poll: time.Hour}
		o.Refused = func(err error) { t.Errorf("watch refused: %v", err) }
		Watch(ctx, []string{root}, o, func() time.Duration { calls <- struct{}{}; return 0 })
	}()
	t.Cleanup(func() { cancel(); <-done })
	<-calls // in place
	return func(what string, look func() bool) {
		t.Helper()
		deadline := time.After(20 * time.Second)
		for {
			select {
			case <-calls:
				if look() {
					return
				}
			case <-deadline:
				t.Fatalf("no call after: %s", what)
			}
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// holds looks whether a file has a content.
func holds(path, content string) func() bool {
	return func() bool {
		b, err := os.ReadFile(path)
		return err == nil && string(b) == content
	}
}

func TestWatchTree(t *testing.T) {
	root := t.TempDir()
	a := filepath.Join(root, "a.yaml")
	write(t, a, "1")
	wait := watched(t, root)

	write(t, a, "2")
	wait("a write", holds(a, "2"))

	// Editors write another file and rename it over the old one.
	write(t, a+".new", "3")
	must(t, os.Rename(a+".new", a))
	wait("a rename over the file", holds(a, "3"))
	write(t, a, "4")
	wait("a write after the rename", holds(a, "4"))

	deep := filepath.Join(root, "x", "y")
	must(t, os.MkdirAll(deep, 0o700))
	b := filepath.Join(deep, "b.yaml")
	write(t, b, "1")
	wait("a file in new directories", holds(b, "1"))
	write(t, b, "2")
	wait("a write in a new directory", holds(b, "2"))

	must(t, os.Remove(a))
	wait("a removal", func() bool { _, err := os.Stat(a); return os.IsNotExist(err) })

	// A directory replaced by another one of the same name.
	must(t, os.RemoveAll(filepath.Join(root, "x")))
	must(t, os.MkdirAll(deep, 0o700))
	write(t, b, "3")
	wait("a replaced directory", holds(b, "3"))
	write(t, b, "4")
	wait("a write in a replaced directory", holds(b, "4"))
}

// A Kubernetes volume holds links into "..data", itself a link that is renamed
// over at every change.
func TestWatchConfigMapSwap(t *testing.T) {
	f := func(name string, rootOf func(volume string) string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			volume := t.TempDir()
			swap := func(version string) {
				dir := filepath.Join(volume, "..v"+version)
				must(t, os.Mkdir(dir, 0o700))
				write(t, filepath.Join(dir, "a.yaml"), version)
				must(t, os.Symlink("..v"+version, filepath.Join(volume, "..data_tmp")))
				must(t, os.Rename(filepath.Join(volume, "..data_tmp"), filepath.Join(volume, "..data")))
			}
			swap("1")
			must(t, os.Symlink(filepath.Join("..data", "a.yaml"), filepath.Join(volume, "a.yaml")))
			wait := watched(t, rootOf(volume))
			for _, version := range []string{"2", "3", "4"} {
				swap(version)
				wait("a swap to "+version, holds(filepath.Join(volume, "a.yaml"), version))
			}
		})
	}
	f("directory", func(volume string) string { return volume })
	f("one file", func(volume string) string { return filepath.Join(volume, "a.yaml") })
}

func TestWatchRootThatAppearsAndIsRepointed(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "current", "manifests")
	file := filepath.Join(root, "a.yaml")
	wait := watched(t, root)
	for _, version := range []string{"1", "2"} {
		must(t, os.MkdirAll(filepath.Join(dir, "v"+version, "manifests"), 0o700))
		write(t, filepath.Join(dir, "v"+version, "manifests", "a.yaml"), version)
		must(t, os.Symlink("v"+version, filepath.Join(dir, "tmp")))
		must(t, os.Rename(filepath.Join(dir, "tmp"), filepath.Join(dir, "current")))
		wait("pointing the root at "+version, holds(file, version))
	}
	write(t, file, "3")
	wait("a write behind a link", holds(file, "3"))
}

// Steady writing must not hold back the report beyond the bound.
func TestWatchBound(t *testing.T) {
	root := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	calls := make(chan struct{}, 1024)
	done := make(chan struct{})
	go func() {
		defer close(done)
		Watch(ctx, []string{root}, Options{Quiet: time.Hour, Bound: 300 * time.Millisecond},
			func() time.Duration { calls <- struct{}{}; return 0 })
	}()
	<-calls
	stop := time.After(20 * time.Second)
	for i := 0; ; i++ {
		write(t, filepath.Join(root, "a.yaml"), string(rune('a'+i%26)))
		select {
		case <-calls:
			cancel()
			<-done
			return
		case <-stop:
			t.Fatal("steady writing starved the report")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestWatchLooksAgainWhenAsked(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	looks := 0
	Watch(ctx, []string{t.TempDir()}, Options{}, func() time.Duration {
		if looks++; looks == 3 {
			cancel()
		}
		return time.Millisecond
	})
	if looks != 3 {
		t.Errorf("looked %d times, want 3", looks)
	}
}
