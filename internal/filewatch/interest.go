package filewatch

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// interest says which names in a directory count: all, or some.
type interest struct {
	all   bool
	names map[string]bool
}

// counts reports whether an event may change what the roots hold. A bare change
// of mode does not.
func (w *watch) counts(e fsnotify.Event) bool {
	if e.Op == fsnotify.Chmod {
		return false
	}
	if _, self := w.interests[e.Name]; self {
		return true // a watched directory itself went or came
	}
	i := w.interests[filepath.Dir(e.Name)]
	return i.all || i.names[filepath.Base(e.Name)]
}

// interestsOf lists the directories to watch for the roots. Paths are absolute.
func interestsOf(roots []string) map[string]interest {
	c := collector{found: map[string]interest{}, visited: map[string]bool{}}
	for _, root := range roots {
		path, err := filepath.Abs(root)
		if err != nil {
			continue // no working directory: nothing can be watched by name
		}
		c.way(path)
		c.tree(path)
	}
	return c.found
}

type collector struct {
	found   map[string]interest
	visited map[string]bool // real paths of directories already walked
}

func (c *collector) name(path string) {
	dir, base := filepath.Split(path)
	dir = filepath.Clean(dir)
	i := c.found[dir]
	if i.names == nil {
		i.names = map[string]bool{}
	}
	i.names[base] = true
	c.found[dir] = i
}

// maxLinks bounds the symbolic links followed on one way, as the kernel does.
const maxLinks = 40

// way collects the names that lead to path: itself, every symbolic link on the
// way and what each points to. Where a part does not exist, its name is
// collected, so that its appearing counts.
func (c *collector) way(path string) {
	for range maxLinks {
		next := ""
		parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
		at := "/"
		for i, part := range parts {
			at = filepath.Join(at, part)
			info, err := os.Lstat(at)
			if err != nil {
				c.name(at)
				return
			}
			if info.Mode()&os.ModeSymlink == 0 {
				continue
			}
			c.name(at)
			target, err := os.Readlink(at)
			if err != nil {
				return
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(at), target)
			}
			next = filepath.Join(append([]string{target}, parts[i+1:]...)...)
			break
		}
		if next == "" {
			c.name(path)
			return
		}
		path = next
	}
}

// tree collects path and the directories below it, with everything in them.
// Links to directories and files outside are followed.
func (c *collector) tree(path string) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil || c.visited[target] {
		return
	}
	info, err := os.Stat(target)
	if err != nil || !info.IsDir() {
		return
	}
	c.visited[target] = true
	i := c.found[path]
	i.all = true
	c.found[path] = i
	entries, err := os.ReadDir(path)
	if err != nil {
		return
	}
	for _, e := range entries {
		child := filepath.Join(path, e.Name())
		if e.Type()&os.ModeSymlink != 0 {
			c.way(child)
		}
		if !strings.HasPrefix(e.Name(), ".") {
			c.tree(child)
		}
	}
}
