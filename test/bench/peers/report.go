package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// sample is one measurement of a row.
type sample struct {
	figures
	cpu    time.Duration // of the process, over the run
	memory memories
}

func (s sample) rate() float64 { return float64(s.requests) / s.seconds }

// cpuPerRequest is in microseconds.
func (s sample) cpuPerRequest() float64 {
	return float64(s.cpu.Nanoseconds()) / 1e3 / float64(s.requests)
}

// median of one figure over a row's rounds.
func (r *row) median(figure func(sample) float64) float64 {
	values := make([]float64, len(r.samples))
	for i, s := range r.samples {
		values[i] = figure(s)
	}
	slices.Sort(values)
	n := len(values)
	return (values[n/2] + values[(n-1)/2]) / 2
}

func (r *row) rate() float64          { return r.median(sample.rate) }
func (r *row) cpuPerRequest() float64 { return r.median(sample.cpuPerRequest) }

// report prints the table and the ratios that the rows allow; aims are what
// chats should come to.
func (b *bench) report(w io.Writer, aims bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "row\treq/s\tp50 ms\tp99 ms\tCPU us/req\tleast\tmost\tMB\tgrown\terrors\t")
	for _, r := range b.rows {
		errors := 0
		for _, s := range r.samples {
			errors += s.errors
		}
		byCPU := func(x, y sample) int { return cmp.Compare(x.cpuPerRequest(), y.cpuPerRequest()) }
		fmt.Fprintf(t, "%s\t%.0f\t%.2f\t%.2f\t%.1f\t%.1f\t%.1f\t%.0f\t%.1f\t%d\t\n", r.name, r.rate(),
			r.median(func(s sample) float64 { return s.p50.Seconds() * 1e3 }),
			r.median(func(s sample) float64 { return s.p99.Seconds() * 1e3 }),
			r.cpuPerRequest(), slices.MinFunc(r.samples, byCPU).cpuPerRequest(),
			slices.MaxFunc(r.samples, byCPU).cpuPerRequest(),
			r.median(func(s sample) float64 { return float64(s.memory.late) / (1 << 20) }),
			r.median(func(s sample) float64 { return float64(s.memory.late-s.memory.early) / (1 << 20) }), errors)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	ratio := func(what, a, over string, figure func(*row) float64, aim string) {
		x, y := b.row(a), b.row(over)
		if !aims {
			aim = ""
		}
		if x != nil && y != nil {
			fmt.Fprintf(w, "%-8s %-11s / %-9s %.2f  %s\n", what, a, over, figure(x)/figure(y), aim)
		}
	}
	ratio("req/s", "ours", "nginx", (*row).rate, "(aim: at least 1)")
	ratio("CPU", "ours", "haproxy", (*row).cpuPerRequest, "(aim: at most 1)")
	ratio("CPU", "ours-body", "ours", (*row).cpuPerRequest, "(aim: at most 1.08)")
	ratio("CPU", "ours", "envoy", (*row).cpuPerRequest, "(aim: at most 0.4)")
	ratio("CPU", "ours-routes", "ours", (*row).cpuPerRequest, "")
	for n := range b.gateways {
		ratio("CPU", fmt.Sprintf("ours@%d", n+1), "ours", (*row).cpuPerRequest, "")
		ratio("CPU", fmt.Sprintf("ours-body@%d", n+1), "ours-body", (*row).cpuPerRequest, "")
	}
	ratio("CPU", "ours", "naive", (*row).cpuPerRequest, "")
	return nil
}

// row finds a row by name; nil: it was not measured.
func (b *bench) row(name string) *row {
	for _, r := range b.rows {
		if r.name == name && len(r.samples) > 0 {
			return r
		}
	}
	return nil
}
