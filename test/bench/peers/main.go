package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// warmUp precedes every measurement.
const warmUp = time.Second

// options are the flags.
type options struct {
	rows, work, load, gateway, envoy string
	rounds                           int
	duration                         time.Duration
	hold                             bool
}

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) > 1 && args[0] == "engines":
		err = serveEngines(args[1:])
	case len(args) > 2 && args[0] == "naive":
		err = serveNaive(args[1], args[2:])
	default:
		err = measure()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func parseFlags() (options, error) {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	var o options
	flag.StringVar(&o.rows, "rows", strings.Join(names, ","), "`ROWS` to measure")
	flag.StringVar(&o.work, "work", "chat", "`WORK` to do: "+strings.Join(workNames(), ", "))
	flag.StringVar(&o.load, "load", "wrk", "`CLIENT` of chats: wrk, or go for this program's own")
	flag.StringVar(&o.gateway, "gateway", "bin/controller", "`PROGRAMS` of FlexInfer Gateway: several builds, separated by commas, are compared")
	flag.StringVar(&o.envoy, "envoy", "envoy", "`PROGRAM` of Envoy")
	flag.IntVar(&o.rounds, "rounds", 5, "`NUMBER` of rounds")
	flag.DurationVar(&o.duration, "duration", 5*time.Second, "`DURATION` of a row in a round, after 1s of warm-up; whole seconds")
	flag.BoolVar(&o.hold, "hold", false, "start everything and wait for an interrupt, for profiles and strace")
	flag.Parse()
	for name := range strings.SplitSeq(o.rows, ",") {
		if !slices.Contains(names, name) {
			return o, fmt.Errorf("-rows: there is no row %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	if o.rounds < 1 || o.rounds > 100 || o.duration < time.Second || o.duration > 10*time.Minute {
		return o, errors.New("-rounds must be from 1 to 100, -duration from 1s to 10m")
	}
	if !slices.Contains(workNames(), o.work) {
		return o, fmt.Errorf("-work: there is no work %q; there is %s", o.work, strings.Join(workNames(), ", "))
	}
	if o.load != "wrk" && o.load != "go" {
		return o, fmt.Errorf("-load: there is no client %q; there are wrk and go", o.load)
	}
	return o, nil
}

func measure() error {
	o, err := parseFlags()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{gateways: strings.Split(o.gateway, ","), envoy: o.envoy, dir: dir}
	defer b.stop()
	w, err := b.client(o.work, o.load)
	if err != nil {
		return err
	}
	rows := strings.Split(o.rows, ",")
	rows = slices.DeleteFunc(rows, func(name string) bool { return name == w.without })
	if err := b.start(ctx, rows); err != nil {
		return err
	}
	if w.secure {
		b.keepSecure()
	}
	if o.hold {
		b.tell(os.Stdout)
		<-ctx.Done()
		return nil
	}
	for n := range o.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d:", n+1, o.rounds)
		for _, r := range b.rows {
			if err := r.measure(ctx, w.load, o.duration); err != nil {
				return fmt.Errorf("%s: %w; its output: %s", r.name, err, r.process.output)
			}
			s := r.samples[n]
			fmt.Fprintf(os.Stderr, " %s %.0f/s %.1fus", r.name, s.rate(), s.cpuPerRequest())
		}
		fmt.Fprintln(os.Stderr)
	}
	return b.report(os.Stdout, o.work == "chat")
}

// tell says where everything listens and how to load it.
func (b *bench) tell(w io.Writer) {
	for _, r := range b.rows {
		fmt.Fprintf(w, "%-12s http://%s  process %d\n", r.name, r.address, r.process.cmd.Process.Pid)
	}
	fmt.Fprintf(w, "wrk -t%d -c%d -d10s -s %s/load.lua http://ADDRESS\n", threads, connections, b.dir)
}

// client returns the work of that name; chats are sent by the client of the
// other name.
func (b *bench) client(name, chats string) (work, error) {
	if name != "chat" {
		return works[name], nil
	}
	send, err := b.chats(chats)
	return work{load: send}, err
}

// chats are sent by the client of that name.
func (b *bench) chats(name string) (load, error) {
	all, err := requests()
	if err != nil {
		return nil, err
	}
	s := b.settings(0)
	if _, err := b.write("load.lua", "load.lua", &s); err != nil {
		return nil, err
	}
	if err := writeRequests(b.dir, all); err != nil {
		return nil, err
	}
	if name == "go" {
		return ownLoad(all, connections), nil
	}
	if _, err := exec.LookPath("wrk"); err != nil {
		return nil, errors.New("wrk is not installed: apt-get install wrk, or use -load go")
	}
	return wrkLoad(b.dir), nil
}

// start starts the engines and the proxies of the rows.
func (b *bench) start(ctx context.Context, rows []string) error {
	if err := b.startEngines(ctx); err != nil {
		return err
	}
	if err := writeCertificate(b.dir); err != nil {
		return err
	}
	for i, k := range kinds {
		if !slices.Contains(rows, k.name) {
			continue
		}
		err := k.start(b, ctx, i)
		var missing errMissing
		switch {
		case errors.As(err, &missing):
			fmt.Fprintln(os.Stderr, missing)
		case err != nil:
			return err
		}
	}
	return nil
}

// stop ends every process, the last one first.
func (b *bench) stop() {
	for _, p := range slices.Backward(b.processes) {
		p.stop()
	}
}

// measure adds one sample.
func (r *row) measure(ctx context.Context, send load, d time.Duration) error {
	if _, err := send(ctx, r.address, warmUp); err != nil {
		return err
	}
	before, err := r.process.cpu()
	if err != nil {
		return err
	}
	watched := r.process.watchMemory(d)
	f, err := send(ctx, r.address, d)
	if err != nil {
		return err
	}
	memory := <-watched
	after, err := r.process.cpu()
	if err != nil {
		return err
	}
	if f.requests == 0 {
		return errors.New("no request was answered")
	}
	r.samples = append(r.samples, sample{figures: f, cpu: after - before, memory: memory})
	return ctx.Err()
}
