package routing

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// The cost of a match must not grow with the number of routes and hostnames.
func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		s := mustCompile(b, manyRoutes(n, 10), testOptions(), nil, NewRegistry(Hooks{}))
		socket := s.Socket(80)
		b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			requests := requestsFor(1) // rewritten: a request was just read, so it is in the cache
			rnd := uint64(1)
			for b.Loop() {
				rnd = mix(rnd)
				r := &requests[rnd%3]
				route := int(rnd >> 32 % uint64(n))
				writeNumber(r.Host, route)
				writeNumber(r.Path, route)
				writeNumber(r.Model, route)
				if socket.Listener(r.Host).Match(r) == nil {
					b.Fatal("no match")
				}
			}
		})
	}
}

// writeNumber puts n where text has five digits behind a hyphen.
func writeNumber(text []byte, n int) {
	at := bytes.IndexByte(text, '-')
	if at < 0 {
		return
	}
	for i := at + 5; i > at; i-- {
		text[i] = byte('0' + n%10)
		n /= 10
	}
}

func BenchmarkRingLookup(b *testing.B) {
	for _, n := range []int{16, 1_000} {
		r := ringOf(podIDs(n)...)
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			h := uint64(1)
			for b.Loop() {
				h = mix(h)
				r.Lookup(h)
			}
		})
	}
}

func BenchmarkNewRing(b *testing.B) {
	members := make([]RingMember, 1_000)
	for i, id := range podIDs(len(members)) {
		members[i].ID = id
	}
	for b.Loop() {
		NewRing(members, DefaultVirtualNodes)
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, s := range []Strategy{StrategyDefault, StrategySession, StrategyLeastLoaded} {
		for _, n := range []int{8, 1_000} {
			var w world
			w.model("m", s, pods(n)...)
			o := testOptions()
			backend := backendOf(b, &w, o, "Model/ns/m")
			in := RouteInput{Headers: &oneField{"X-Session-Id", []byte("session-1")}, Facts: &Facts{}, Options: o, Now: startOfTime}
			b.Run(fmt.Sprintf("%s/pods=%d", s, n), func(b *testing.B) {
				b.ReportAllocs()
				var l Lease
				var d Decision
				for b.Loop() {
					backend.Decide(&in, &l, &d)
					l.Start()
					l.Release(in.Now, ResultOK)
				}
			})
		}
	}
}

func BenchmarkLeastLoadedParallel(b *testing.B) {
	var w world
	w.model("m", StrategyLeastLoaded, pods(16)...)
	o := testOptions()
	backend := backendOf(b, &w, o, "Model/ns/m")
	b.RunParallel(func(pb *testing.PB) {
		in := RouteInput{Headers: &oneField{}, Facts: &Facts{}, Options: o, Now: startOfTime}
		var l Lease
		var d Decision
		for pb.Next() {
			backend.Decide(&in, &l, &d)
			l.Start()
			l.Release(in.Now, ResultOK)
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	cfg := manyRoutes(2_000, 5_000)
	o := testOptions()
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			mustCompile(b, cfg, o, nil, NewRegistry(Hooks{}))
		}
	})
	b.Run("one-endpoint", func(b *testing.B) {
		reg := NewRegistry(Hooks{})
		prev := mustCompile(b, cfg, o, nil, reg)
		other := *cfg
		other.EndpointLists = append([]EndpointList(nil), cfg.EndpointLists...)
		l := &other.EndpointLists[17]
		l.Endpoints = l.Endpoints[1:]
		var longest time.Duration
		configs := [2]*Config{&other, cfg}
		i := 0
		for b.Loop() {
			start := time.Now()
			prev = mustCompile(b, configs[i&1], o, prev, reg)
			longest = max(longest, time.Since(start))
			i++
		}
		b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
	})
}
