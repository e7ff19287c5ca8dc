package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// component is one long-running program of the cluster.
type component struct {
	name  string
	args  []string // args[0] is the program's path
	ready func(context.Context) error
	log   string
}

// start starts the component, unless its recorded process lives. It outlives this
// program and writes to its log.
func (c component) start() error {
	if _, alive := recorded(c.name); alive {
		return nil
	}
	for _, path := range []string{c.log, pidFile(c.name)} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(c.args[0], c.args[1:]...) //nolint:noctx // it must not end with this program
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s cannot be started: %w", c.name, err)
	}
	go cmd.Wait() //nolint:errcheck // so that it is no zombie; its log says why it ended
	born, err := startTime(cmd.Process.Pid)
	if err != nil {
		return c.failed(errors.New("has ended at once"))
	}
	return os.WriteFile(pidFile(c.name), fmt.Appendf(nil, "%d %s", cmd.Process.Pid, born), 0o644)
}

// wait returns when the component answers as ready, or an error with its last
// lines when it has ended or the time is over.
func (c component) wait(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		if _, alive := recorded(c.name); !alive {
			return c.failed(errors.New("has ended"))
		}
		if c.ready == nil {
			return nil
		}
		attempt, done := context.WithTimeout(ctx, 2*time.Second)
		err := c.ready(attempt)
		done()
		if err == nil {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return c.failed(fmt.Errorf("is not ready after %s: %w", timeout, err))
		}
	}
}

func (c component) failed(reason error) error {
	return fmt.Errorf("%s %w\nthe last lines of %s:\n%s", c.name, reason, c.log, lastLines(c.log, 15))
}

// lastLines are the ends of the last n lines of a log, indented.
func lastLines(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "  " + err.Error()
	}
	lines := strings.Split(string(bytes.TrimSpace(data)), "\n")
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		lines[i] = "  " + line[:min(len(line), 400)]
	}
	return strings.Join(lines, "\n")
}

// recorded is the component's process id and whether that very process lives.
func recorded(component string) (id int, alive bool) {
	data, err := os.ReadFile(pidFile(component))
	if err != nil {
		return 0, false
	}
	first, born, _ := strings.Cut(string(data), " ")
	id, err = strconv.Atoi(first)
	if err != nil {
		return 0, false
	}
	now, err := startTime(id)
	return id, err == nil && now == born
}

// startTime tells a process from a later one of the same id. A zombie has none.
func startTime(id int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return "", err
	}
	// The second field, in parentheses, may hold blanks; the state is the third and
	// the start the 22nd.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return "", fmt.Errorf("process %d has ended", id)
	}
	return fields[19], nil
}
