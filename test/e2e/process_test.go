package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
)

// patience bounds every wait for something that must happen; the machine may be busy.
const patience = 60 * time.Second

// process is a program under test.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	output testrig.Log
	exited chan struct{}
	once   sync.Once
}

// start runs a program; at the test's end it is stopped and must leave cleanly.
func start(t *testing.T, program string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: program, exited: make(chan struct{})}
	p.cmd = exec.Command(filepath.Join(programs, program), args...)
	p.cmd.Env = append(os.Environ(), "GORACE=halt_on_error=0 exitcode=66", "PROXY_SHUTDOWN_DRAIN_DELAY=10ms")
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("cannot start %s: %v", program, err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code is looked at by stop
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("output of %s:\n%s", program, tail(p.output.String()))
		}
	})
	return p
}

// tail is the end of a text, enough to see what went wrong.
func tail(s string) string {
	const most = 16 << 10
	if len(s) > most {
		return "… " + s[len(s)-most:]
	}
	return s
}

// stop ends the process by SIGTERM; it must exit with 0, no race and no panic.
func (p *process) stop() {
	p.t.Helper()
	p.once.Do(func() {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			p.t.Errorf("cannot stop %s: %v", p.name, err)
		}
		select {
		case <-p.exited:
		case <-time.After(patience):
			p.t.Errorf("%s does not end after SIGTERM", p.name)
			_ = p.cmd.Process.Kill() // nothing else is left to do
			<-p.exited
		}
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			p.t.Errorf("%s ended with code %d", p.name, code)
		}
		for _, bad := range []string{"DATA RACE", "panic:", "goroutine "} {
			if strings.Contains(p.output.String(), bad) {
				p.t.Errorf("%s wrote %q", p.name, bad)
			}
		}
	})
}

// eventually waits until holds does; what names it in the failure.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
