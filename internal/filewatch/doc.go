// Package filewatch tells when files or directory trees may have changed.
//
// What it takes as a change: a file written, created, renamed over (as editors
// save), removed; a directory that appears or goes; a symbolic link on the way
// that is pointed elsewhere (as a Kubernetes volume swaps its "..data"). A
// burst of changes becomes one call: after a quiet time, and at the latest after
// an upper bound, so that steady writing never starves the reader.
//
// A call only says "look again": it carries no names, and a call without a
// difference is possible. The watches are renewed before each call, so what the
// caller then reads misses nothing that later events would not announce.
//
// Where the system refuses a watch (its limit is reached, or the file system
// has none), the package says so once and looks every two seconds instead.
package filewatch
