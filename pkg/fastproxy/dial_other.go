//go:build !linux

package fastproxy

import "syscall"

func limitUnacknowledged(_, _ string, _ syscall.RawConn) error { return nil }
