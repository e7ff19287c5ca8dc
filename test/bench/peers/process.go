package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program that this one started.
type process struct {
	name   string
	cmd    *exec.Cmd
	output *bytes.Buffer
	ended  chan struct{}
}

// start starts a program and waits until each of the addresses is listened on.
func start(ctx context.Context, name string, command []string, addresses ...string) (*process, error) {
	for _, a := range addresses {
		if listened(ctx, a) {
			return nil, fmt.Errorf("%s: %s is taken: end what listens there", name, a)
		}
	}
	p := &process{name: name, cmd: exec.Command(command[0], command[1:]...), output: &bytes.Buffer{}, ended: make(chan struct{})} //nolint:noctx // stop ends it, and politely
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	// What this process leaves behind where it is killed would spoil the next run.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	for _, a := range addresses {
		if err := p.await(ctx, a); err != nil {
			p.stop()
			return nil, fmt.Errorf("%s: %w; its output: %s", name, err, p.output)
		}
	}
	return p, nil
}

// listened says whether somebody listens on address.
func listened(ctx context.Context, address string) bool {
	dialer := net.Dialer{Timeout: time.Second}
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// await waits until address is listened on.
func (p *process) await(ctx context.Context, address string) error {
	for range 300 {
		if listened(ctx, address) {
			return nil
		}
		select {
		case <-p.ended:
			return errors.New("it has ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("it does not listen on %s within 30 s", address)
}

// stop ends the process, by force where it does not hear.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// clockTick is the unit of the CPU times in /proc/PID/stat: USER_HZ, which is
// 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// cpu is the CPU time that the process and its descendants have used.
func (p *process) cpu() (time.Duration, error) {
	var sum int64
	err := p.tree(func(_ int, fields []string) {
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		system, _ := strconv.ParseInt(fields[12], 10, 64)
		sum += user + system
	})
	return time.Duration(sum) * clockTick, err
}

// memory is what the process and its descendants hold resident, in bytes.
func (p *process) memory() (int64, error) {
	var sum int64
	err := p.tree(func(_ int, fields []string) {
		pages, _ := strconv.ParseInt(fields[21], 10, 64)
		sum += pages * int64(os.Getpagesize())
	})
	return sum, err
}

// memories are what a process held early and late in a run.
type memories struct{ early, late int64 }

// watchMemory looks after a quarter of d and shortly before its end; the answer
// waits in the channel.
func (p *process) watchMemory(d time.Duration) <-chan memories {
	seen := make(chan memories, 1)
	go func() {
		var m memories
		time.Sleep(d / 4)
		m.early, _ = p.memory()
		time.Sleep(d/2 + d/5)
		m.late, _ = p.memory()
		seen <- m
	}()
	return seen
}

// tree visits the process and its descendants with the fields of /proc/PID/stat
// from the state on.
func (p *process) tree(visit func(pid int, fields []string)) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	stats, parents := map[int][]string{}, map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has just ended
		}
		// The name, in brackets, may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 22 {
			return fmt.Errorf("/proc/%d/stat has an unknown form", pid)
		}
		stats[pid] = fields
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	for pid, fields := range stats {
		for up := pid; up > 1; up = parents[up] {
			if up == p.cmd.Process.Pid {
				visit(pid, fields)
				break
			}
		}
	}
	return nil
}
