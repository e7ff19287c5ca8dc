// Command pause is the first process of every pod's sandbox: it holds the pod's
// namespaces open, reaps the children that others left to it, and ends on SIGTERM
// or SIGINT.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			fmt.Fprintln(os.Stderr, "pause: ended by", s)
			return
		}
		reap()
	}
}

// reap collects every child that has ended; signals of several may be one.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != syscall.EINTR && pid <= 0 {
			return
		}
	}
}
