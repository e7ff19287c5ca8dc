package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lock keeps two commands from changing the cluster at once. It waits up to five
// minutes for the other one. `down` removes the file, so that a lock counts only
// on the file that the path still names.
func lock(ctx context.Context) (unlock func(), err error) {
	deadline := time.Now().Add(5 * time.Minute)
	for time.Now().Before(deadline) {
		file, err := os.OpenFile(lockPath, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && samePath(file) {
			return func() { file.Close() }, nil
		}
		file.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", lockPath, err)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("another command holds %s for five minutes", lockPath)
}

func samePath(file *os.File) bool {
	held, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(lockPath)
	return err == nil && os.SameFile(held, named)
}

// pause waits, and returns early with the context's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
