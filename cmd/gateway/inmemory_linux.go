package main

import "golang.org/x/sys/unix"

// inMemory reports whether a directory is on a volume that is never written to
// a disk.
func inMemory(directory string) bool {
	var s unix.Statfs_t
	return unix.Statfs(directory, &s) == nil && s.Type == unix.TMPFS_MAGIC
}
