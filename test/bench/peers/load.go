package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	connections = 64 // of a chat
	threads     = 2
)

// figures are what a client saw in one run.
type figures struct {
	requests int
	seconds  float64
	errors   int // failed connections, reads, writes; answers other than 2xx and 3xx
	p50, p99 time.Duration
}

// load sends requests to address for d.
type load func(ctx context.Context, address string, d time.Duration) (figures, error)

// wrkLoad is a load by wrk, with the requests in dir.
func wrkLoad(dir string) load {
	return func(ctx context.Context, address string, d time.Duration) (figures, error) {
		ctx, cancel := context.WithTimeout(ctx, d+30*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, "wrk", "-t"+strconv.Itoa(threads), "-c"+strconv.Itoa(connections),
			"-d"+strconv.Itoa(int(max(d.Seconds(), 1)))+"s", "--timeout", "5s", "-s", dir+"/load.lua", "http://"+address)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return figures{}, fmt.Errorf("wrk: %w: %s", err, out)
		}
		_, line, ok := strings.Cut(string(out), "FIGURES ")
		var f figures
		var micros int64
		var p50, p99 float64
		if _, err := fmt.Sscan(line, &f.requests, &micros, &f.errors, &p50, &p99); !ok || err != nil {
			return figures{}, fmt.Errorf("wrk gave no figures: %s", out)
		}
		f.seconds = float64(micros) / 1e6
		f.p50, f.p99 = time.Duration(p50*1e3), time.Duration(p99*1e3)
		return f, nil
	}
}

// ownLoad is a load by goroutines of this process, where wrk is not installed.
func ownLoad(all [][]byte, connections int) load {
	return func(ctx context.Context, address string, d time.Duration) (figures, error) {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		var mu sync.Mutex
		var f figures
		var latencies []time.Duration
		var running sync.WaitGroup
		began := time.Now()
		for i := range connections {
			running.Go(func() {
				own, failed := send(ctx, address, all, i*len(all)/connections)
				mu.Lock()
				defer mu.Unlock()
				latencies = append(latencies, own...)
				if failed {
					f.errors++
				}
			})
		}
		running.Wait()
		f.requests, f.seconds = len(latencies), time.Since(began).Seconds()
		if f.requests == 0 {
			return f, fmt.Errorf("no answer from %s", address)
		}
		f.p50, f.p99 = percentiles(latencies)
		return f, nil
	}
}

// percentiles are the 50th and the 99th; latencies is not empty.
func percentiles(latencies []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(latencies)
	return latencies[len(latencies)/2], latencies[len(latencies)*99/100]
}

// send sends one request after the other on one connection until ctx ends,
// beginning with all[next]. It returns the time that each took, and whether it
// had to give up.
func send(ctx context.Context, address string, all [][]byte, next int) (took []time.Duration, failed bool) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, true
	}
	defer c.Close()
	r := bufio.NewReaderSize(c, 64<<10)
	for ctx.Err() == nil {
		began := time.Now()
		if err := c.SetDeadline(began.Add(time.Minute)); err != nil {
			return took, true
		}
		if _, err := c.Write(all[next]); err != nil || readAnswer(r) != nil {
			return took, true
		}
		took = append(took, time.Since(began))
		next = (next + 1) % len(all)
	}
	return took, false
}

// readAnswer reads one 200 answer with a Content-Length and throws it away.
func readAnswer(r *bufio.Reader) error {
	length := -1
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		text := strings.TrimSpace(string(line))
		if first && !strings.HasPrefix(text, "HTTP/1.1 200") {
			return fmt.Errorf("answered %q", text)
		}
		if text == "" {
			break
		}
		if name, value, _ := strings.Cut(text, ":"); strings.EqualFold(name, "content-length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return fmt.Errorf("answered without a length")
	}
	_, err := r.Discard(length)
	return err
}
