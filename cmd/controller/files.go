package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// manifestFile is one file that was read.
type manifestFile struct {
	path    string
	content []byte
}

// readManifests reads the files that roots name: a file whatever its name, of a
// directory every .yaml, .yml and .json file below it, hidden ones left out and
// links followed. What cannot be read is a finding. Files come in the order of
// roots, those of a directory by path; each is read once. short are the findings
// for want of descriptors or memory, which say nothing about the files.
func readManifests(roots []string) (files []manifestFile, findings, short []finding) {
	r := reader{seen: map[string]bool{}}
	for _, root := range roots {
		before := r.met
		info, err := os.Stat(root)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			r.find(root, "does not exist: create it or correct the path")
		case err != nil:
			r.unreadable(root, err, "")
		case info.IsDir():
			r.directory(root)
			if r.met == before {
				r.find(root, "holds no .yaml, .yml or .json file: put the manifests there or correct the path")
			}
		default:
			r.file(root)
		}
	}
	return r.files, r.findings, r.short
}

type reader struct {
	files    []manifestFile
	findings []finding
	short    []finding       // those of findings for want of descriptors or memory
	seen     map[string]bool // by real path
	met      int             // what was met below a root, read already or unreadable included
}

func (r *reader) find(path, message string) {
	r.met++
	r.findings = append(r.findings, finding{File: path, Message: message})
}

// unreadable finds that path could not be read.
func (r *reader) unreadable(path string, err error, advice string) {
	short := errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
	if short {
		advice = "; what was read last goes on, and it is tried again"
	}
	r.find(path, "cannot be read: "+reason(err)+advice)
	if short {
		r.short = append(r.short, r.findings[len(r.findings)-1])
	}
}

// first reports whether path, wherever links lead, is met for the first time.
func (r *reader) first(path string) bool {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		r.unreadable(path, err, "")
		return false
	}
	if r.seen[target] {
		r.met++
		return false
	}
	r.seen[target] = true
	return true
}

func (r *reader) directory(path string) {
	if !r.first(path) {
		return
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		r.unreadable(path, err, "; make it readable for this process")
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // editors' files, and the machinery of mounted volumes
		}
		child := filepath.Join(path, e.Name())
		info, err := os.Stat(child)
		switch {
		case errors.Is(err, fs.ErrNotExist) && e.Type()&fs.ModeSymlink == 0:
			// It went between the two looks.
		case err != nil:
			r.unreadable(child, err, "")
		case info.IsDir():
			r.directory(child)
		case !isManifest(e.Name()):
		case !info.Mode().IsRegular(): // a pipe would be waited for, a device never end
			r.find(child, "is no regular file: move it away")
		default:
			r.file(child)
		}
	}
}

func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name)))
}

func (r *reader) file(path string) {
	r.met++
	if !r.first(path) {
		return
	}
	content, err := os.ReadFile(path) //nolint:gosec // the path is the operator's own
	if err != nil {
		r.unreadable(path, err, "; make it readable for this process")
		return
	}
	r.files = append(r.files, manifestFile{path: path, content: content})
}

// reason is an error without the path, which the finding names already.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
